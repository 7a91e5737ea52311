#include "sim/costs/costs.h"

#include "sim/costs/collective_costs.h"
#include "sim/costs/price_classes.h"

namespace stepcast {

// Collectives of a step run beside others and at warm clocks, and are slower than isolated ones by
// one factor for each level, found for NCCL's kernels. All-to-alls that send a token once have
// rates of their own. The hosts' time for blocking messages is not the link's.
Seconds time_in_step(const Op& op, const RingPath& path, const Cluster& cluster) {
    const Seconds time = collective_time(op, path, cluster);
    const auto* hop = std::get_if<SendRecv>(&op);
    const Seconds messages = hop ? message_time(*hop, cluster) : Seconds(0);
    const auto* sent = std::get_if<AllToAll>(&op);
    if (sent && sent->by_kernels()) return time;
    return messages + (time - messages) / (path.nodes > 1 ? cluster.inter : cluster.intra).training;
}

Seconds host_call_time(const Cluster& cluster) { return cluster.host.load * cluster.host.call; }

Costs price(const TaskGraph& graph, const Cluster& cluster) {
    const PriceClasses classes(graph);
    const PriceClasses::Paths paths = classes.paths(cluster);
    Costs costs;
    classes.fill(costs, classes.price(cluster, paths), paths, cluster);
    return costs;
}

}  // namespace stepcast
