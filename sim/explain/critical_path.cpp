#include "sim/explain/critical_path.h"

#include <algorithm>
#include <utility>

#include "model/rank_groups.h"

namespace stepcast {
namespace {

// Follows places and hosts through the tasks by the rules of the engines.
class Follower {
public:
    Follower(const TaskGraph& graph, const Costs& costs, const Timeline& timeline)
        : graph_(graph),
          costs_(costs),
          timeline_(timeline),
          with_hosts_(needs_hosts(graph, costs)),
          last_on_(static_cast<std::size_t>(graph.place_count()), no_task),
          hosts_(static_cast<std::size_t>(graph.rank_count())),
          issued_last_(static_cast<std::size_t>(graph.rank_count()), no_task) {}

    Binding next(TaskId t) {
        Binding binding;
        Seconds latest;
        const auto later = [&](Seconds time, Binding candidate) {
            if (time <= latest) return;
            latest = time;
            binding = candidate;
        };
        for (const TaskId earlier : graph_.predecessors(t))
            later(timeline_.finish[earlier], {Binding::Kind::predecessor, earlier, 0});
        for (const Place& place : graph_.places(t))
            if (const TaskId before = last_on_[place.index]; before != no_task && place.lane() != Lane::host)
                later(timeline_.finish[before], {Binding::Kind::lane, before, 0});
        if (with_hosts_)
            for (const Place& place : graph_.places(t))
                later(host(place) + (graph_.on_host(t) ? Seconds(0) : costs_.issue[t]),
                      {Binding::Kind::host, 0, place.rank()});
        move_on(t);
        return binding;
    }

private:
    Seconds& host(Place place) { return hosts_[static_cast<std::size_t>(place.rank())]; }

    void move_on(TaskId t) {
        for (const Place& place : graph_.places(t)) {
            last_on_[place.index] = t;
            if (!with_hosts_ || std::exchange(issued_last_[static_cast<std::size_t>(place.rank())], t) == t) continue;
            const bool waits = graph_.on_host(t) || graph_.launch_blocking();
            host(place) = waits ? timeline_.finish[t] : host(place) + costs_.issue[t];
        }
    }

    const TaskGraph& graph_;
    const Costs& costs_;
    const Timeline& timeline_;
    bool with_hosts_;
    std::vector<TaskId> last_on_;      // per place
    std::vector<Seconds> hosts_;       // per rank: until when its host is busy
    std::vector<TaskId> issued_last_;  // per rank
};

}  // namespace

bool occupies(const TaskGraph& graph, TaskId t, int rank) {
    return std::ranges::any_of(graph.places(t), [&](const Place& place) { return place.rank() == rank; });
}

std::vector<Binding> bindings(const TaskGraph& graph, const Costs& costs, const Timeline& timeline) {
    Follower follower(graph, costs, timeline);
    std::vector<Binding> found;
    for (TaskId t = 0; t < graph.size(); ++t) found.push_back(follower.next(t));
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

// Ids only fall on the way, so that all scans of a walk together pass every task once.
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

std::vector<PathSegment> critical_path(const TaskGraph& graph, const Costs& costs, const Timeline& timeline,
                                       const std::vector<Binding>& bindings) {
    std::vector<PathSegment> path;
    if (graph.size() == 0) return path;
    const auto last = static_cast<TaskId>(std::ranges::max_element(timeline.finish) - timeline.finish.begin());
    path.push_back({last, false, timeline.finish[last] - timeline.start[last], 0});
    BackWalk walk(graph, costs, timeline, bindings, last);
    for (PathSegment segment; walk.step(segment);) path.push_back(segment);
    std::ranges::reverse(path);
    return path;
}

LinkLevel link_of(const TaskGraph& graph, TaskId t, const Cluster& cluster) {
    if (!is_collective(graph.op(t))) return LinkLevel::none;
    const Group& group = graph.group(graph.group_id(t));
    int lowest = group.first, highest = lowest + (group.ranks - 1) * group.stride + (group.outer_ranks - 1) * group.outer_stride;
    if (group.size() <= 1) {
        const auto [low, high] = std::ranges::minmax(graph.places(t), {}, &Place::rank);
        lowest = low.rank();
        highest = high.rank();
    }
    const auto crosses = [&](int ranks_below) { return lowest / ranks_below != highest / ranks_below; };
    if (lowest == highest) return LinkLevel::none;
    if (!crosses(cluster.gpus_per_node)) return LinkLevel::node;
    return crosses(cluster.gpus_per_node * cluster.network.nodes_per_leaf) ? LinkLevel::spine : LinkLevel::leaf;
}

}  // namespace stepcast
