#include "sim/collective_costs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "sim/curve.h"
#include "sim/ring_path.h"

namespace stepcast {
namespace {

// What a ring or tree does with a payload of `bytes`: rounds inside and between nodes, bytes through each link, the
// piece that a rank owns and how often it is moved beside the ring.
struct Walk {
    double rounds_inside = 0, rounds_between = 0;
    Bytes traffic, piece;
    double copy = 0;
};

struct Pricer {
    const Cluster& cluster;
    const RingPath& path;
    const Link& intra = cluster.intra;
    const Link& inter = cluster.inter;
    const Link& link = path.nodes > 1 ? inter : intra;  // whose measured curves hold
    double n = path.ranks, nodes = path.nodes;

    // Passes of n-1 rounds, N-1 of them between nodes.
    [[nodiscard]] Walk ring(Bytes bytes, double passes, double traffic, double copy) const {
        return {passes * (n - nodes), passes * (nodes - 1), traffic * bytes, bytes / n, copy};
    }

    [[nodiscard]] BytesPerSecond slowest(double inside, double between) const {
        if (nodes == 1) return path.intra * inside;
        if (n == nodes) return path.inter * between;
        return std::min(path.intra * inside, path.inter * between);
    }

    [[nodiscard]] Seconds simple(const Walk& walk) const {
        const Seconds start = (nodes > 1 ? std::max(intra.launch, inter.launch) : intra.launch) +
                              walk.rounds_inside * intra.latency + walk.rounds_between * inter.latency;
        const Seconds transfer = walk.traffic / slowest(intra.ring_efficiency, inter.ring_efficiency);
        return pipelined(start, transfer) + walk.copy * walk.piece / path.intra;
    }

    [[nodiscard]] Seconds pipelined(Seconds start, Seconds transfer) const {
        return start + transfer + Seconds(intra.pipelining * std::sqrt(start.si() * transfer.si()));
    }

    [[nodiscard]] Seconds with(const Protocol& inside, const Protocol& between, const Walk& walk, Seconds slots) const {
        if (inside.efficiency == 0 || (nodes > 1 && between.efficiency == 0)) return Seconds(INFINITY);
        return (nodes > 1 ? std::max(inside.launch, between.launch) : inside.launch) +
               walk.rounds_inside * (inside.latency + slots) + walk.rounds_between * between.latency +
               walk.traffic / slowest(inside.efficiency, between.efficiency);
    }

    // One slot of a piece goes with the first flags; from half a slot to two, more and more rounds need another.
    [[nodiscard]] Seconds slots(Bytes piece) const {
        if (intra.slot == Bytes(0)) return Seconds(0);
        return std::clamp(0.5 + 0.5 * std::log2(piece / intra.slot), 0.0, 1.0) * intra.slot_latency;
    }

    [[nodiscard]] Seconds fastest_protocol(const Walk& walk) const {
        Seconds best = simple(walk);
        if (walk.traffic == Bytes(0)) return best;
        best = std::min(best, with(intra.low_latency, inter.low_latency, walk, slots(walk.piece)));
        if (n > 2) best = std::min(best, with(intra.low_latency_128, inter.low_latency_128, walk, Seconds(0)));
        return best;
    }

    Seconds operator()(const AllReduce& op) const {
        if (!link.all_reduce.empty()) return interpolate(link.all_reduce, op.bytes);
        Seconds best = fastest_protocol(ring(op.bytes, 2, 2 * (n - 1) / n, intra.reduce_copy));
        if (nodes > 1) {
            const double depth = std::bit_width(static_cast<unsigned>(path.nodes - 1));
            const Walk tree{2 * (n / nodes - 1), 2 * depth, 2 * op.bytes, op.bytes / n, intra.reduce_copy};
            best = std::min(best, fastest_protocol(tree));
        } else if (n > 2 && intra.nvls_efficiency > 0) {
            best = std::min(best, pipelined(intra.nvls_launch, op.bytes / (path.intra * intra.nvls_efficiency)));
        }
        return best;
    }
    Seconds operator()(const AllGather& op) const {
        if (!link.all_gather.empty()) return interpolate(link.all_gather, op.bytes);
        return fastest_protocol(ring(op.bytes, 1, (n - 1) / n, intra.gather_copy));
    }
    Seconds operator()(const ReduceScatter& op) const {
        if (!link.reduce_scatter.empty()) return interpolate(link.reduce_scatter, op.bytes);
        return fastest_protocol(ring(op.bytes, 1, (n - 1) / n, intra.reduce_copy));
    }
    Seconds operator()(const Broadcast& op) const {
        if (!link.broadcast.empty()) return interpolate(link.broadcast, op.bytes);
        return fastest_protocol(ring(op.bytes, 1, 1, 0));
    }
    Seconds operator()(const Reduce& op) const {
        if (!link.reduce.empty()) return interpolate(link.reduce, op.bytes);
        return fastest_protocol(ring(op.bytes, 1, 1, 0));
    }

    // Messages to peers inside and outside the node; `own` stays on the rank.
    [[nodiscard]] Seconds exchange(Bytes inside, Bytes between, Bytes own, double peers_inside, double peers_between) const {
        const auto moved = [&](double in_share, double out_share) {
            const Seconds in = inside == Bytes(0) ? Seconds(0) : inside / (path.intra * in_share);
            const Seconds out = between == Bytes(0) ? Seconds(0) : between / (path.rank_inter * out_share);
            return std::max(in, out);
        };
        const bool crosses = nodes > 1;
        const Seconds peers = peers_inside * intra.exchange.latency + peers_between * inter.exchange.latency;
        const Seconds copy = own == Bytes(0) ? Seconds(0) : intra.exchange_copy * own / path.intra;
        const Seconds large = (crosses ? inter : intra).latency + (crosses ? inter : intra).exchange_launch + peers +
                              moved(intra.all_to_all_efficiency, inter.all_to_all_efficiency) + copy;
        const Protocol& small = (crosses ? inter : intra).exchange;
        if (small.efficiency == 0 || (inside > Bytes(0) && intra.exchange.efficiency == 0)) return large;
        return std::min(large, small.launch + peers + moved(intra.exchange.efficiency, inter.exchange.efficiency));
    }

    Seconds operator()(const AllToAll& op) const {
        if (!link.all_to_all.empty()) return interpolate(link.all_to_all, busiest_bytes(op));
        Seconds worst(0);
        const std::size_t ranks = path.node_of.size();
        for (std::size_t r = 0; r < ranks; ++r) {
            Bytes in[2], out[2];  // [between nodes]
            double peers[2] = {0, 0};
            for (std::size_t other = 0; other < ranks; ++other) {
                if (other == r) continue;
                const int between = path.node_of[other] != path.node_of[r];
                in[between] += op.bytes[other * ranks + r];
                out[between] += op.bytes[r * ranks + other];
                ++peers[between];
            }
            worst = std::max(worst, exchange(std::max(in[0], out[0]), std::max(in[1], out[1]), op.bytes[r * ranks + r],
                                             peers[0], peers[1]));
        }
        return worst;
    }

    Seconds operator()(const SendRecv& op) const {
        const Bytes message = op.bytes / op.messages;
        if (!link.send_recv.empty()) return static_cast<double>(op.messages) * interpolate(link.send_recv, message);
        const bool crosses = nodes > 1;
        return static_cast<double>(op.messages) *
               exchange(crosses ? Bytes(0) : message, crosses ? message : Bytes(0), Bytes(0), crosses ? 0 : 1, crosses ? 1 : 0);
    }
    Seconds operator()(const Barrier&) const { return link.latency; }
    template <typename Other>
    Seconds operator()(const Other&) const {
        throw std::logic_error("collective_time: not a collective");
    }
};

Seconds time_among(const Op& op, std::span<const int> members, const Cluster& cluster) {
    if (members.size() <= 1) return Seconds(0);
    const RingPath path = ring_path(members, cluster);
    return std::visit(Pricer{cluster, path}, op);
}

}  // namespace

Bytes busiest_bytes(const AllToAll& op) {
    const auto n = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(op.bytes.size()))));
    Bytes busiest(0);
    for (std::size_t r = 0; r < n; ++r) {
        Bytes in(0), out(0);
        for (std::size_t other = 0; other < n; ++other) {
            if (other == r) continue;
            in += op.bytes[other * n + r];
            out += op.bytes[r * n + other];
        }
        busiest = std::max({busiest, in, out});
    }
    return busiest;
}

Seconds collective_time(const Op& op, std::span<const Place> places, const Cluster& cluster) {
    std::vector<int> members;
    for (const Place& place : places) members.push_back(place.rank());
    return time_among(op, members, cluster);
}

Seconds collective_time(const Op& op, const Group& group, const Cluster& cluster) {
    if (group.size() <= 1) return Seconds(0);
    const RingPath path = ring_path(group, cluster, std::holds_alternative<SendRecv>(op));
    return std::visit(Pricer{cluster, path}, op);
}

}  // namespace stepcast
