#include "sim/costs/collective_costs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "sim/costs/dispatch_law.h"
#include "sim/costs/exchange_law.h"
#include "sim/costs/measured_tables.h"

namespace stepcast {
namespace {

// What a ring or tree does with a payload of `bytes`: rounds inside and between nodes, bytes
// through each link, the chunk that a rank owns (`piece`), and how often that chunk is moved in
// addition to the ring (`copy`).
struct Walk {
    double rounds_inside = 0, rounds_between = 0;
    Bytes traffic, piece;
    double copy = 0;
};

// What one rank exchanges: bytes and peers inside and outside its node. `own` stays with the rank.
struct Exchange {
    Bytes inside, between, own, largest;  // `largest`: the largest message inside the node
    double peers_inside = 0, peers_between = 0;
};

Exchange exchange_of(const AllToAll& op, const std::vector<int>& node_of, std::size_t rank) {
    const std::size_t ranks = node_of.size();
    Bytes in[2], out[2], largest;  // [on other nodes]
    double peers[2] = {0, 0};
    for (std::size_t other = 0; other < ranks; ++other) {
        if (other == rank) continue;
        const std::size_t away = node_of[other] != node_of[rank];
        in[away] += op.bytes[other * ranks + rank];
        out[away] += op.bytes[rank * ranks + other];
        if (away == 0)
            largest =
                std::max({largest, op.bytes[other * ranks + rank], op.bytes[rank * ranks + other]});
        ++peers[away];
    }
    return {std::max(in[0], out[0]),
            std::max(in[1], out[1]),
            op.bytes[rank * ranks + rank],
            largest,
            peers[0],
            peers[1]};
}

struct CollectivePricer {
    const Cluster& cluster;
    const RingPath& path;
    Bytes small;  // the largest message that counts as small
    const Link& intra = cluster.intra;
    const Link& inter = cluster.inter;
    const Link& link = path.nodes > 1 ? inter : intra;  // the link whose measured curves apply
    double n = path.ranks, nodes = path.nodes;

    // Each pass has n-1 rounds, N-1 of them between nodes.
    [[nodiscard]] Walk ring(Bytes bytes, double passes, double traffic, double copy) const {
        return {passes * (n - nodes), passes * (nodes - 1), traffic * bytes, bytes / n, copy};
    }

    [[nodiscard]] BytesPerSecond slowest(double inside, double between) const {
        return std::min(path.ring * inside, path.inter * between);
    }

    // A chunk moves within the device at the rate of the node's own links.
    [[nodiscard]] Seconds copied(double copy, Bytes piece) const {
        return copy == 0 ? Seconds(0) : copy * piece / intra.bandwidth;
    }

    [[nodiscard]] static Seconds rounds(const Walk& walk, Seconds inside, Seconds between) {
        return walk.rounds_inside * inside + walk.rounds_between * between;
    }

    // A ring's bytes that leave the node, on networks whose transport hands over piece by piece. A
    // round takes the longer of its piece's transfer and the hand-over (link.inter.slot_latency),
    // and a little more if both are about equal.
    [[nodiscard]] Seconds handed_over(const Walk& walk, Seconds transfer) const {
        if (nodes == 1 || inter.slot_latency == Seconds(0)) return transfer;
        const Seconds waits = (walk.rounds_inside + walk.rounds_between) * inter.slot_latency;
        return Seconds(std::hypot(transfer.si(), waits.si()));
    }

    [[nodiscard]] Seconds simple(const Walk& walk) const {
        const Seconds start = (nodes > 1 ? std::max(intra.launch, inter.launch) : intra.launch) +
                              rounds(walk, intra.latency, inter.latency);
        const Seconds transfer =
            walk.traffic / slowest(intra.ring_efficiency, inter.ring_efficiency);
        return pipelined(start, transfer) + (handed_over(walk, transfer) - transfer) +
               copied(walk.copy, walk.piece);
    }

    [[nodiscard]] Seconds pipelined(Seconds start, Seconds transfer) const {
        return start + transfer + Seconds(intra.pipelining * std::sqrt(start.si() * transfer.si()));
    }

    [[nodiscard]] Seconds with(const Protocol& inside, const Protocol& between, const Walk& walk,
                               Seconds slot) const {
        if (inside.efficiency == 0 || (nodes > 1 && between.efficiency == 0))
            return Seconds(INFINITY);
        return (nodes > 1 ? std::max(inside.launch, between.launch) : inside.launch) +
               rounds(walk, inside.latency, between.latency) + slot +
               handed_over(walk, walk.traffic / slowest(inside.efficiency, between.efficiency));
    }

    // The threads of a channel fill one slot at once. For larger pieces more channels join in.
    [[nodiscard]] Seconds slot(Bytes piece) const {
        if (intra.slot == Bytes(0)) return Seconds(0);
        return std::min(1.0, piece / intra.slot) * intra.slot_latency;
    }

    [[nodiscard]] Seconds fastest_protocol(const Walk& walk) const {
        Seconds best = simple(walk);
        if (walk.traffic == Bytes(0)) return best;
        best = std::min(best, with(intra.low_latency, inter.low_latency, walk, slot(walk.piece)));
        if (n > 2)
            best = std::min(best,
                            with(intra.low_latency_128, inter.low_latency_128, walk, Seconds(0)));
        return best;
    }

    Seconds operator()(const AllReduce& op) const {
        if (!link.all_reduce.empty()) return interpolate(link.all_reduce, op.bytes);
        Seconds best = fastest_protocol(ring(op.bytes, 2, 2 * (n - 1) / n, intra.reduce_copy));
        if (nodes > 1) {
            const double depth = std::bit_width(static_cast<unsigned>(path.nodes - 1));
            const double apart = inter.slot_latency > Seconds(0) ? depth : 1;
            const Walk tree{2 * (n / nodes - 1), 2 * depth, 2 * apart * op.bytes, op.bytes / n,
                            intra.reduce_copy};
            best = std::min(best, fastest_protocol(tree));
        } else if (n > most_without_nvls && op.in_switch && intra.nvls_efficiency > 0) {
            best = std::min(
                best, pipelined(intra.nvls_launch, op.bytes / (path.ring * intra.nvls_efficiency)));
        }
        return best;
    }
    // One pass of n - 1 rounds, or the measured curve.
    [[nodiscard]] Seconds one_pass(const Curve& measured, Bytes bytes, double traffic,
                                   double copy) const {
        return measured.empty() ? fastest_protocol(ring(bytes, 1, traffic, copy))
                                : interpolate(measured, bytes);
    }
    Seconds operator()(const AllGather& op) const {
        return one_pass(link.all_gather, op.bytes, (n - 1) / n, intra.gather_copy);
    }
    Seconds operator()(const ReduceScatter& op) const {
        return one_pass(link.reduce_scatter, op.bytes, (n - 1) / n, intra.reduce_copy);
    }
    Seconds operator()(const Broadcast& op) const {
        return one_pass(link.broadcast, op.bytes, 1, 0);
    }
    Seconds operator()(const Reduce& op) const { return one_pass(link.reduce, op.bytes, 1, 0); }

    // The share of the link's rate that dispatch kernels reach, if the cluster has one for them.
    [[nodiscard]] static double dispatch_share(const Link& l, bool by_kernels) {
        return by_kernels && l.dispatch_efficiency > 0 ? l.dispatch_efficiency
                                                       : l.all_to_all_efficiency;
    }

    [[nodiscard]] Seconds exchange(const Exchange& e, BytesPerSecond inside, BytesPerSecond between,
                                   bool by_kernels = false) const {
        if (nodes == 1 && !by_kernels && has_exchange_law(intra))
            return exchange_law_time({e.inside, e.own, e.largest, e.peers_inside, path.ranks},
                                     intra, cluster.fabric, inside, small);
        const Link& slower = nodes > 1 ? inter : intra;
        const auto transfer = [&](double inside_share, double between_share) {
            const Seconds in =
                e.inside == Bytes(0) ? Seconds(0) : e.inside / (inside * inside_share);
            const Seconds out =
                e.between == Bytes(0) ? Seconds(0) : e.between / (between * between_share);
            return std::max(in, out);
        };
        const Seconds peers =
            e.peers_inside * intra.exchange.latency + e.peers_between * inter.exchange.latency;
        const Seconds large = pipelined(slower.latency + slower.exchange_launch + peers,
                                        transfer(dispatch_share(intra, by_kernels),
                                                 dispatch_share(inter, by_kernels))) +
                              copied(intra.exchange_copy, e.own);
        if (slower.exchange.efficiency == 0 ||
            (e.inside > Bytes(0) && intra.exchange.efficiency == 0))
            return large;
        // Small messages go side by side, on a channel for each peer of the node, up to what the
        // link carries. A NIC sends them in turn.
        const Seconds message = e.inside == Bytes(0)
                                    ? Seconds(0)
                                    : std::max(e.largest / (inside * intra.exchange.efficiency),
                                               e.inside / (inside * intra.all_to_all_efficiency));
        const Seconds out =
            e.between == Bytes(0) ? Seconds(0) : e.between / (between * inter.exchange.efficiency);
        return std::min(large, slower.exchange.launch + peers + std::max(message, out));
    }

    // Ranks that exchange alike are priced once: where all send as much to each, those of nodes
    // with as many of the ranks.
    [[nodiscard]] std::vector<std::size_t> unlike_ranks(const AllToAll& op) const {
        const std::vector<int>& node_of = path.node_of;
        const bool even =
            std::ranges::all_of(op.bytes, [&](Bytes bytes) { return bytes == op.bytes.front(); });
        std::vector<std::size_t> unlike;
        std::vector<std::ptrdiff_t> met;  // ranks of a node
        for (const std::size_t r : indices_of(node_of)) {
            const std::ptrdiff_t beside = even ? std::ranges::count(node_of, node_of[r]) : 0;
            if (even && contains(met, beside)) continue;
            met.push_back(beside);
            unlike.push_back(r);
        }
        return unlike;
    }

    // The kernels' SMs move all rows. Meanwhile the rows for other nodes also go through the NICs.
    [[nodiscard]] Seconds dispatch(const AllToAll& op, const Exchange& e,
                                   BytesPerSecond inside) const {
        const DispatchLoad load{(e.inside + e.between) / op.row, op.tokens, op.row};
        const Seconds kernels = dispatch_law_time(load, intra.dispatch, inside, intra.dispatch.sms);
        if (e.between == Bytes(0)) return kernels;
        return std::max(kernels, intra.dispatch.launch + inter.latency +
                                     e.between / (path.between * dispatch_share(inter, true)));
    }

    Seconds operator()(const AllToAll& op) const {
        if (!link.all_to_all.empty()) return interpolate(link.all_to_all, busiest_bytes(op));
        // Dispatch kernels cross between nodes on their own rail. What they pass on inside a node
        // is among their bytes there.
        const bool direct = op.by_kernels() && cluster.fabric == Fabric::nvswitch;
        const BytesPerSecond inside = direct ? intra.bandwidth : path.inside;
        Seconds worst(0);
        // If the link has a dispatch share of its own, steps run other kernels than DeepEP's.
        const bool dispatched =
            op.by_kernels() && intra.dispatch.efficiency > 0 && intra.dispatch_efficiency == 0;
        for (const std::size_t r : unlike_ranks(op)) {
            const Exchange e = exchange_of(op, path.node_of, r);
            worst =
                std::max(worst, dispatched ? dispatch(op, e, inside)
                                           : exchange(e, inside, path.between, op.by_kernels()));
        }
        return worst;
    }

    Seconds operator()(const SendRecv& op) const {
        if (op.blocking) return message_time(op, cluster) + (*this)(SendRecv{op.bytes, 1});
        const Bytes message = op.bytes / op.messages;
        if (!link.send_recv.empty())
            return real(op.messages) * interpolate(link.send_recv, message);
        const Exchange e = nodes > 1 ? Exchange{{}, message, {}, {}, 0, 1}
                                     : Exchange{message, {}, {}, message, 1, 0};
        return real(op.messages) * exchange(e, path.pair, path.pair);
    }
    Seconds operator()(const Barrier&) const { return link.latency; }
    Seconds operator()(const LocalOp auto&) const {
        throw std::logic_error("collective_time: not a collective");
    }
};

}  // namespace

Bytes busiest_bytes(const AllToAll& op) {
    const std::vector<int> one_node(as_index(std::lround(std::sqrt(real(op.bytes.size())))));
    Bytes busiest;
    for (const std::size_t r : indices_of(one_node))
        busiest = std::max(busiest, exchange_of(op, one_node, r).inside);
    return busiest;
}

Seconds message_time(const SendRecv& op, const Cluster& cluster) {
    return op.blocking ? real(op.messages) * (cluster.host.load * cluster.host.message)
                       : Seconds(0);
}

Seconds collective_time(const Op& op, const RingPath& path, const Cluster& cluster,
                        std::optional<Bytes> small) {
    if (path.ranks <= 1) return Seconds(0);
    return std::visit(CollectivePricer{cluster, path, small.value_or(cluster.intra.exchange_small)},
                      op);
}

Seconds collective_time(const Op& op, std::span<const Place> places, const Cluster& cluster) {
    if (places.size() <= 1) return Seconds(0);
    std::vector<int> members;
    for (const Place& place : places) members.push_back(place.rank());
    return collective_time(op, ring_path(members, cluster), cluster);
}

Seconds collective_time(const Op& op, const Group& group, const Cluster& cluster) {
    if (group.size() <= 1) return Seconds(0);
    return collective_time(op, ring_path(group, cluster), cluster);
}

}  // namespace stepcast
