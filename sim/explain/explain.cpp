#include "sim/explain/explain.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "model/base/numbers.h"
#include "model/step.h"
#include "sim/breakdown.h"
#include "sim/explain/elasticity.h"
#include "sim/pipeline_notes.h"

namespace stepcast {
namespace {

std::vector<PathShare> shares_of(const TaskGraph& graph, const std::vector<PathSegment>& path,
                                 const Cluster& cluster) {
    std::map<std::pair<std::string_view, LinkLevel>, PathShare> by_kind;
    for (const PathSegment& s : path) {
        const LinkLevel link = s.issue ? LinkLevel::none : link_of(graph, s.task, cluster);
        const std::string_view kind = s.issue ? "issue" : kind_name(graph.op(s.task));
        PathShare& share = by_kind[{kind, link}];
        share.kind = kind;
        share.link = link;
        share.on_host = s.issue || graph.on_host(s.task);
        share.time += s.time;
        ++share.tasks;
    }
    std::vector<PathShare> shares;
    for (auto& [key, share] : by_kind) shares.push_back(share);
    std::ranges::stable_sort(shares, std::ranges::greater{}, &PathShare::time);
    return shares;
}

IdleTime idle_time(const TaskGraph& graph, const WhatIf& step, int rank) {
    const Breakdown b = breakdown(graph, step.costs(), step.timeline(), rank);
    return {rank,
            graph.multiplicity()[as_index(rank)],
            b.compute + b.memory,
            b.bubble,
            b.imbalance,
            b.exposed_communication,
            b.host};
}

// The median by the busy time of the compute lanes. Each simulated rank counts as often as it
// stands for real ranks.
int median_rank(const TaskGraph& graph, const Timeline& timeline) {
    const std::vector<Seconds> busy = busy_times(
        graph, timeline, [](TaskId, const Place& place) { return place.lane() == Lane::compute; });
    const std::vector<int>& stands_for = graph.multiplicity();
    std::vector<int> order(busy.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](int r) { return busy[as_index(r)]; });
    long left = std::accumulate(stands_for.begin(), stands_for.end(), 0L) / 2;
    for (const int rank : order) {
        left -= stands_for[as_index(rank)];
        if (left < 0) return rank;
    }
    return order.back();
}

}  // namespace

Explanation explain(const Experiment& e) {
    const TaskGraph graph = build_step(e, routing_of(e));
    WhatIf step(graph, e.cluster);
    Explanation x;
    x.step = step.timeline().end;
    x.path = shares_of(graph, step.path(), e.cluster);
    x.slowest = idle_time(graph, step, limiting_rank(graph, step.timeline()));
    x.median = idle_time(graph, step, median_rank(graph, step.timeline()));
    x.elasticities = elasticities(step, e.cluster, x.change, x.without_effect);
    x.uncertainties = uncertainties(step, e.cluster, x.elasticities, x.change);
    double variance = 0;
    for (const Uncertainty& u : x.uncertainties) variance += u.widening.si() * u.widening.si();
    x.uncertainty = Seconds(std::sqrt(variance));
    return x;
}

}  // namespace stepcast
