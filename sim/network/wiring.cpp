#include "sim/network/wiring.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/errors.h"

namespace stepcast {
namespace {

constexpr int ranks_per_pcie_switch = 2;

// What rank 0 of node 0 cannot reach for want of bandwidth.
void check_connected(const Cluster& c) {
    const auto refuse = [](const char* level, const char* what, int index, int node, const char* link) {
        throw ConfigError(fmt::format("cluster.link.{0}.bandwidth: found 0, so rank 0 of node 0 cannot reach {1} {2} of node {3}; "
                                      "expected the bandwidth of one {4}",
                                      level, what, index, node, link));
    };
    const BytesPerSecond none(0);
    const bool pair = c.fabric == Fabric::nvlink_pairs && c.intra.pair_bandwidth > none;
    if (c.gpus_per_node > 1 && !(c.intra.bandwidth > none)) {
        constexpr const char* link = "link inside the node";
        if (!pair || c.gpus_per_node > 2) refuse("intra", "rank", pair ? 2 : 1, 0, link);
        if (c.nodes > 1) refuse("intra", "NIC", 0, 0, link);
    }
    if (c.nodes > 1 && !(c.inter.bandwidth > none)) refuse("inter", "rank", 0, 1, "NIC");
}

void append(std::vector<double>& links, int count, BytesPerSecond bandwidth) {
    links.insert(links.end(), static_cast<std::size_t>(count), bandwidth > BytesPerSecond(0) ? 1 / bandwidth.si() : 0);
}

// Both directions of a rank's link to its switch, a NIC's to its leaf, a PCIe switch's to its socket: those items one after the other.
constexpr int up(int item) { return 2 * item; }
constexpr int down(int item) { return 2 * item + 1; }

}  // namespace

Wiring::Wiring(const Cluster& c)
    : nodes_(c.nodes),
      ranks_(c.gpus_per_node),
      nodes_per_leaf_(c.network.nodes_per_leaf),
      bridged_(c.fabric == Fabric::nvlink_pairs && c.intra.pair_bandwidth > BytesPerSecond(0)) {
    check_connected(c);
    const int there = c.network.nics == 0 ? ranks_ : c.network.nics;
    if (nodes_ > 1) nics_ = std::min(there, ranks_);
    rails_ = c.network.rails && nics_ > 1;
    relayed_ = rails_ && c.fabric == Fabric::nvswitch;
    if (ranks_ > 1 && c.fabric != Fabric::nvswitch) {
        switches_ = (ranks_ + ranks_per_pcie_switch - 1) / ranks_per_pcie_switch;
        sockets_ = std::min(switches_, 2);
    }
    const BytesPerSecond nic = nics_ > 0 ? c.inter.bandwidth * (static_cast<double>(there) / nics_) : BytesPerSecond(0);
    append(of_node_, 2 * ranks_, c.intra.bandwidth);
    append(of_node_, 2 * nics_, nic);
    append(of_node_, 2 * switches_, c.intra.bandwidth);
    append(of_node_, 2, c.intra.socket_bandwidth > BytesPerSecond(0) ? c.intra.socket_bandwidth : c.intra.bandwidth);
    append(of_node_, ranks_, c.intra.pair_bandwidth);
    const double nics_of_leaf = static_cast<double>(nodes_per_leaf_) * (rails_ ? 1 : nics_);
    append(of_leaf_, 2 * (rails_ ? nics_ : 1), nic * (nics_of_leaf / c.network.oversubscription));
}

Wiring::InTree Wiring::place_of_rank(int local) const {
    const int pcie_switch = local / ranks_per_pcie_switch;
    return {pcie_switch, pcie_switch * sockets_ / switches_};
}

// A NIC that serves the ranks of several PCIe switches is plugged into the socket of the first.
Wiring::InTree Wiring::place_of_nic(int nic) const {
    const InTree first = place_of_rank(first_rank_of(nic));
    return {nics_ >= switches_ ? first.pcie_switch : -1, first.socket};
}

void Wiring::cross_tree(int node, const InTree& from, const InTree& to) {
    if (from.pcie_switch >= 0 && from.pcie_switch == to.pcie_switch) return;
    const int first_switch = ranks_ + nics_, sockets = first_switch + switches_;
    if (from.pcie_switch >= 0) take(node, up(first_switch + from.pcie_switch));
    if (from.socket != to.socket) take(node, from.socket < to.socket ? up(sockets) : down(sockets));
    if (to.pcie_switch >= 0) take(node, down(first_switch + to.pcie_switch));
}

void Wiring::inside(int node, int from, int to) {
    if (bridged_ && from / 2 == to / 2) return take(node, 2 * (ranks_ + nics_ + switches_ + 1) + from);
    take(node, up(from));
    if (switches_ > 0) cross_tree(node, place_of_rank(from), place_of_rank(to));
    take(node, down(to));
}

void Wiring::between(const Flow& f) {
    const int leaving = nic_of(relayed_ ? f.to_local : f.local), arriving = nic_of(f.to_local);
    if (switches_ > 0) {
        take(f.node, up(f.local));
        cross_tree(f.node, place_of_rank(f.local), place_of_nic(leaving));
    } else if (nic_of(f.local) != leaving) {
        inside(f.node, f.local, first_rank_of(leaving));
    }
    take(f.node, up(ranks_ + leaving));
    const int rail = rails_ ? leaving : 0, to_rail = rails_ ? arriving : 0;
    if (leaf_of(f.node) != leaf_of(f.to_node) || rail != to_rail) {
        route_.push_back({true, leaf_of(f.node), up(rail)});
        route_.push_back({true, leaf_of(f.to_node), down(to_rail)});
    }
    take(f.to_node, down(ranks_ + arriving));
    if (switches_ == 0) return;
    cross_tree(f.to_node, place_of_nic(arriving), place_of_rank(f.to_local));
    take(f.to_node, down(f.to_local));
}

const std::vector<WiredLink>& Wiring::route(const Flow& f) {
    route_.clear();
    if (f.node == f.to_node)
        inside(f.node, f.local, f.to_local);
    else
        between(f);
    return route_;
}

LinkLoads::LinkLoads(Wiring& wiring, int node)
    : wiring_(wiring),
      begin_(wiring.leaf_of(node) * wiring.nodes_per_leaf()),
      end_(std::min(wiring.nodes(), begin_ + wiring.nodes_per_leaf())) {
    for (int n = begin_; n < end_; ++n)
        per_byte_.insert(per_byte_.end(), wiring.links_of_node().begin(), wiring.links_of_node().end());
    per_byte_.insert(per_byte_.end(), wiring.links_of_leaf().begin(), wiring.links_of_leaf().end());
    loads_.resize(per_byte_.size());
}

std::optional<std::size_t> LinkLoads::position(const WiredLink& link) const {
    if (link.of_leaf ? link.owner != wiring_.leaf_of(begin_) : !holds(link.owner)) return std::nullopt;
    const int before = link.of_leaf ? end_ - begin_ : link.owner - begin_;
    return static_cast<std::size_t>(before) * wiring_.links_of_node().size() + static_cast<std::size_t>(link.number);
}

void LinkLoads::add(const Flow& flow, double leaving, double arriving) {
    for (const WiredLink& link : wiring_.route(flow)) {
        const bool of_sender = link.owner == (link.of_leaf ? wiring_.leaf_of(flow.node) : flow.node);
        if (const auto at = position(link)) loads_[*at] += of_sender ? leaving : arriving;
    }
}

double LinkLoads::occupation(const Flow& flow) {
    double most = 0;
    for (const WiredLink& link : wiring_.route(flow))
        if (const auto at = position(link)) most = std::max(most, loads_[*at] * per_byte_[*at]);
    return most;
}

}  // namespace stepcast
