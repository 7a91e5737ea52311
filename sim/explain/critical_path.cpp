#include "sim/explain/critical_path.h"

#include <algorithm>
#include <stdexcept>

#include "model/base/numbers.h"
#include "model/rank_groups.h"

namespace stepcast {
bool occupies(const TaskGraph& graph, TaskId t, int rank) {
    return std::ranges::any_of(graph.places(t),
                               [&](const Place& place) { return place.rank() == rank; });
}

BackWalk::BackWalk(const TaskGraph& graph, const Costs& costs, const Timeline& timeline,
                   TaskId task)
    : graph_(graph), costs_(costs), timeline_(timeline), task_(task) {
    if (timeline.waited_for.size() != graph.size())
        throw std::logic_error("critical_path: the timeline does not say what tasks waited for");
}

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
    const WaitedFor waited_for = timeline_.waited_for[task_];
    switch (waited_for.kind) {
        case WaitedFor::Kind::nothing: return false;
        case WaitedFor::Kind::predecessor:
        case WaitedFor::Kind::lane: return step_to(waited_for.id, segment);
        case WaitedFor::Kind::host: break;
    }
    host_ = as_int(waited_for.id);
    if (graph_.on_host(task_)) return step_on_host(segment);
    segment = {task_, true, costs_.issue[task_], host_};
    return true;
}

std::vector<PathSegment> critical_path(const TaskGraph& graph, const Costs& costs,
                                       const Timeline& timeline) {
    std::vector<PathSegment> path;
    if (graph.size() == 0) return path;
    const auto last =
        static_cast<TaskId>(std::ranges::max_element(timeline.finish) - timeline.finish.begin());
    path.push_back({last, false, timeline.finish[last] - timeline.start[last], 0});
    BackWalk walk(graph, costs, timeline, last);
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
