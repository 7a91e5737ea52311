#include "sim/collective_costs.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/curve.h"

namespace stepcast {
namespace {

bool spans_nodes(std::span<const Place> places, const Cluster& cluster) {
    return std::any_of(places.begin(), places.end(), [&](const Place& p) {
        return p.rank() / cluster.gpus_per_node != places.front().rank() / cluster.gpus_per_node;
    });
}

struct Pricer {
    const Link& link;
    double n;

    Seconds ring(const Curve& curve, Bytes bytes, double rounds, double traffic) const {
        if (!curve.empty()) return interpolate(curve, bytes);
        return rounds * link.latency + traffic * bytes / (link.bandwidth * link.ring_efficiency);
    }
    Seconds operator()(const AllReduce& op) const {
        return ring(link.all_reduce, op.bytes, 2 * (n - 1), 2 * (n - 1) / n);
    }
    Seconds operator()(const AllGather& op) const { return ring(link.all_gather, op.bytes, n - 1, (n - 1) / n); }
    Seconds operator()(const ReduceScatter& op) const {
        return ring(link.reduce_scatter, op.bytes, n - 1, (n - 1) / n);
    }
    Seconds operator()(const Broadcast& op) const { return ring(link.broadcast, op.bytes, n - 1, 1); }
    Seconds operator()(const Reduce& op) const { return ring(link.reduce, op.bytes, n - 1, 1); }
    Seconds operator()(const AllToAll& op) const {
        const Bytes bytes = busiest_bytes(op);
        if (!link.all_to_all.empty()) return interpolate(link.all_to_all, bytes);
        return link.latency + bytes / link.bandwidth;
    }
    Seconds operator()(const SendRecv& op) const {
        if (!link.send_recv.empty())
            return static_cast<double>(op.messages) * interpolate(link.send_recv, op.bytes / op.messages);
        return op.messages * link.latency + op.bytes / link.bandwidth;
    }
    Seconds operator()(const Barrier&) const { return link.latency; }
    template <typename Other>
    Seconds operator()(const Other&) const {
        throw std::logic_error("collective_time: not a collective");
    }
};

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
    if (places.size() <= 1) return Seconds(0);
    const Link& link = spans_nodes(places, cluster) ? cluster.inter : cluster.intra;
    return std::visit(Pricer{link, static_cast<double>(places.size())}, op);
}

Seconds collective_time(const Op& op, const Group& group, const Cluster& cluster) {
    if (group.size() <= 1) return Seconds(0);
    const int last = (group.ranks - 1) * group.stride + (group.outer_ranks - 1) * group.outer_stride;
    const Link& link = last >= cluster.gpus_per_node ? cluster.inter : cluster.intra;
    return std::visit(Pricer{link, static_cast<double>(group.size())}, op);
}

}  // namespace stepcast
