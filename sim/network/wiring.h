// The links of a machine, the routes over them, and how much traffic each link carries. Knows nothing of groups
// (sim/network/ring_path.h).
#pragma once

#include <optional>
#include <vector>

#include "model/cluster.h"

namespace stepcast {

// From one rank to another, by node and place on it.
struct Flow {
    int node = 0, local = 0, to_node = 0, to_local = 0;
};

// One direction of a link, by its number among those of its owner: a node, or the leaf switches below which some nodes lie.
struct WiredLink {
    bool of_leaf = false;
    int owner = 0, number = 0;
    friend auto operator<=>(const WiredLink&, const WiredLink&) = default;
};

// nvswitch: all ranks of a node on one switch at link.intra.bandwidth. pcie: two ranks a PCIe switch, the switches on two
// sockets, each link at link.intra.bandwidth, the one between the sockets at link.intra.socket_bandwidth. nvlink_pairs:
// that tree, and ranks 2i, 2i + 1 joined at link.intra.pair_bandwidth. NIC i serves the i-th share of a node's ranks and
// is plugged in next to them, by a link that limits nothing; with more NICs than ranks each rank has one that is as much faster.
// Leaves join NIC i of nodes_per_leaf nodes (rails) or all their NICs; the link from a leaf to the spine carries what its NICs do,
// divided by the oversubscription.
class Wiring {
public:
    // ConfigError when a rank cannot reach another.
    explicit Wiring(const Cluster& cluster);

    [[nodiscard]] int nodes() const { return nodes_; }
    [[nodiscard]] int ranks_per_node() const { return ranks_; }
    [[nodiscard]] int leaf_of(int node) const { return node / nodes_per_leaf_; }
    [[nodiscard]] int nodes_per_leaf() const { return nodes_per_leaf_; }

    // By number, what a byte takes: all nodes are alike, and all leaves. 0: not there, so that no route takes it.
    [[nodiscard]] const std::vector<double>& links_of_node() const { return of_node_; }
    [[nodiscard]] const std::vector<double>& links_of_leaf() const { return of_leaf_; }

    // The links that may limit a flow, in its order; good until the next call. A rank uses the NIC that serves it, or (rails
    // beside an nvswitch) hands over to a neighbour on the receiver's rail; between those points the route is the shortest.
    const std::vector<WiredLink>& route(const Flow& flow);

private:
    // A place in a node's tree: a PCIe switch, or (-1) the socket itself.
    struct InTree {
        int pcie_switch, socket;
    };
    [[nodiscard]] int nic_of(int local) const { return local * nics_ / ranks_; }
    [[nodiscard]] int first_rank_of(int nic) const { return (nic * ranks_ + nics_ - 1) / nics_; }
    [[nodiscard]] InTree place_of_rank(int local) const;
    [[nodiscard]] InTree place_of_nic(int nic) const;
    void take(int node, int number) { route_.push_back({false, node, number}); }
    void cross_tree(int node, const InTree& from, const InTree& to);
    void inside(int node, int from, int to);
    void between(const Flow& flow);

    int nodes_, ranks_, nodes_per_leaf_;
    int nics_ = 0;  // of a node, no more than its ranks; 0 with one node
    int switches_ = 0, sockets_ = 0;  // of a tree
    bool bridged_, rails_, relayed_;
    std::vector<double> of_node_, of_leaf_;
    std::vector<WiredLink> route_;
};

// How much traffic each link carries, counted on a representative part of the machine: the nodes below one leaf (the focus) and
// that leaf.
class LinkLoads {
public:
    // The focus is the leaf of this node. The wiring must outlive the loads.
    LinkLoads(Wiring& wiring, int node);

    [[nodiscard]] int begin() const { return begin_; }  // nodes of the focus
    [[nodiscard]] int end() const { return end_; }
    [[nodiscard]] bool holds(int node) const { return node >= begin_ && node < end_; }

    // Adds to the links of the route that lie in the focus: so much to those on the sender's side of the spine, and to those
    // on the receiver's; below one leaf that leaf's own count as the sender's.
    void add(const Flow& flow, double leaving, double arriving);

    // How long a unit of traffic on every flow occupies the slowest link of this route in the focus, in s/byte.
    [[nodiscard]] double occupation(const Flow& flow);

private:
    [[nodiscard]] std::optional<std::size_t> position(const WiredLink& link) const;

    Wiring& wiring_;
    int begin_, end_;
    std::vector<double> loads_, per_byte_;  // links of the nodes of the focus, then of its leaf
};

}  // namespace stepcast
