#include "sim/explain/critical_path.h"

#include <algorithm>
#include <utility>

#include "model/rank_groups.h"

namespace stepcast {
bool occupies(const TaskGraph& graph, TaskId t, int rank) {
    return std::ranges::any_of(graph.places(t),
                               [&](const Place& place) { return place.rank() == rank; });
}

// Replays places and hosts over the tasks by the rules of the engines.
std::vector<Binding> bindings(const TaskGraph& graph, const Costs& costs,
                              const Timeline& timeline) {
    const bool with_hosts = needs_hosts(graph, costs);
    const auto ranks = static_cast<std::size_t>(graph.rank_count());
    std::vector<TaskId> last_on(static_cast<std::size_t>(graph.place_count()), no_task),
        issued_last(ranks, no_task);
    std::vector<Seconds> hosts(ranks);  // until when each rank's host is busy
    const auto rank_of = [](Place place) { return static_cast<std::size_t>(place.rank()); };
    std::vector<Binding> found;
    for (TaskId t = 0; t < graph.size(); ++t) {
        Binding& binding = found.emplace_back();
        Seconds latest;
        const auto wait = [&](Seconds time, Binding candidate) {
            if (time > latest) latest = time, binding = candidate;
        };
        const bool on_host = graph.on_host(t);
        for (const TaskId earlier : graph.predecessors(t))
            wait(timeline.finish[earlier], {Binding::Kind::predecessor, earlier, 0});
        for (const Place& place : graph.places(t))
            if (const TaskId before = last_on[place.index];
                before != no_task && place.lane() != Lane::host)
                wait(timeline.finish[before], {Binding::Kind::lane, before, 0});
        if (with_hosts)
            for (const Place& place : graph.places(t))
                wait(hosts[rank_of(place)] + (on_host ? Seconds(0) : costs.issue[t]),
                     {Binding::Kind::host, 0, place.rank()});
        for (const Place& place : graph.places(t)) {
            last_on[place.index] = t;
            if (!with_hosts || std::exchange(issued_last[rank_of(place)], t) == t) continue;
            Seconds& host = hosts[rank_of(place)];
            host = on_host || graph.launch_blocking() ? timeline.finish[t] : host + costs.issue[t];
        }
    }
    return found;
}

BackWalk::BackWalk(const TaskGraph& graph, const Costs& costs, const Timeline& timeline,
                   const std::vector<Binding>& bindings, TaskId task)
    : graph_(graph), costs_(costs), timeline_(timeline), bindings_(bindings), task_(task) {}

bool BackWalk::step_to(TaskId task, PathSegment& segment) {
    task_ = task;
    host_ = -1;
    segment = {task, false, timeline_.finish[task] - timeline_.start[task], 0};
    return true;
}

// Ids only fall during a walk, so all scans of a walk together pass every task once.
bool BackWalk::step_on_host(PathSegment& segment) {
    while (task_-- > 0) {
        if (!occupies(graph_, task_, host_)) continue;
        if (graph_.on_host(task_) || graph_.launch_blocking()) return step_to(task_, segment);
        if (costs_.issue[task_] == Seconds(0)) continue;
        segment = {task_, true, costs_.issue[task_], host_};
        return true;
    }
    return false;
}

bool BackWalk::step(PathSegment& segment) {
    if (host_ >= 0) return step_on_host(segment);
    const Binding& binding = bindings_[task_];
    switch (binding.kind) {
        case Binding::Kind::nothing: return false;
        case Binding::Kind::predecessor:
        case Binding::Kind::lane: return step_to(binding.task, segment);
        case Binding::Kind::host: break;
    }
    host_ = binding.rank;
    if (graph_.on_host(task_)) return step_on_host(segment);
    segment = {task_, true, costs_.issue[task_], host_};
    return true;
}

std::vector<PathSegment> critical_path(const TaskGraph& graph, const Costs& costs,
                                       const Timeline& timeline,
                                       const std::vector<Binding>& bindings) {
    std::vector<PathSegment> path;
    if (graph.size() == 0) return path;
    const auto last =
        static_cast<TaskId>(std::ranges::max_element(timeline.finish) - timeline.finish.begin());
    path.push_back({last, false, timeline.finish[last] - timeline.start[last], 0});
    BackWalk walk(graph, costs, timeline, bindings, last);
    for (PathSegment segment; walk.step(segment);) path.push_back(segment);
    std::ranges::reverse(path);
    return path;
}

LinkLevel link_of(const TaskGraph& graph, TaskId t, const Cluster& cluster) {
    if (!is_collective(graph.op(t))) return LinkLevel::none;
    const Group& group = graph.group(graph.group_id(t));
    int lowest = group.first, highest = lowest + (group.ranks - 1) * group.stride +
                                        (group.outer_ranks - 1) * group.outer_stride;
    if (group.size() <= 1) {
        const auto [low, high] = std::ranges::minmax(graph.places(t), {}, &Place::rank);
        lowest = low.rank();
        highest = high.rank();
    }
    const auto crosses = [&](int ranks_below) {
        return lowest / ranks_below != highest / ranks_below;
    };
    if (lowest == highest) return LinkLevel::none;
    if (!crosses(cluster.gpus_per_node)) return LinkLevel::node;
    return crosses(cluster.gpus_per_node * cluster.network.nodes_per_leaf) ? LinkLevel::spine
                                                                           : LinkLevel::leaf;
}

}  // namespace stepcast
