#include "sim/breakdown.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "sim/explain/critical_path.h"

namespace stepcast {
namespace {

// The earlier part counts when several run at once.
enum Part { compute, memory, communication, part_count };

Part part_of(const Op& op) {
    if (is_compute(op)) return compute;
    return std::holds_alternative<MemoryPass>(op) ? memory : communication;
}

Seconds& part_sum(Breakdown& b, Part part) {
    return part == compute ? b.compute : part == memory ? b.memory : b.exposed_communication;
}

// A task of the rank starts (+1) or finishes (-1). Host work does not count: it costs nothing while
// the device waits for something else.
struct BusyChange {
    Seconds time;
    // a finish sorts before a start at the same time, so that back-to-back tasks leave no gap
    int delta;
    TaskId task;
    friend auto operator<=>(const BusyChange&, const BusyChange&) = default;
};

std::vector<BusyChange> busy_changes(const TaskGraph& graph, const Timeline& timeline, int rank) {
    std::vector<BusyChange> changes;
    for (TaskId t = 0; t < graph.size(); ++t) {
        if (std::holds_alternative<HostWork>(graph.op(t)) || !occupies(graph, t, rank)) continue;
        changes.push_back({timeline.start[t], +1, t});
        changes.push_back({timeline.finish[t], -1, t});
    }
    std::ranges::sort(changes);
    return changes;
}

// Finds out why a rank idles. It follows back the chain of what a task waited for, and attributes
// each moment of the gap to what ran then on that chain, because only that could have let the task
// start earlier.
class Waits {
public:
    Waits(const TaskGraph& graph, const Costs& costs, const Timeline& timeline, int rank)
        : graph_(graph), costs_(costs), timeline_(timeline), rank_(rank) {}

    // Nothing runs on the rank from `begin` until `next` starts there.
    void before(TaskId next, Seconds begin, Breakdown& b) {
        follow(next, begin, timeline_.start[next], b);
    }

    // The rank is done at `begin`, but the step lasts until the last task of all ranks ends.
    void at_end(Seconds begin, Breakdown& b) {
        if (begin == timeline_.end) return;
        const auto last = static_cast<TaskId>(std::ranges::max_element(timeline_.finish) -
                                              timeline_.finish.begin());
        const Seconds start = std::max(begin, timeline_.start[last]);
        cause({last, false, {}, 0}, b) += timeline_.end - start;
        follow(last, begin, start, b);
    }

private:
    void follow(TaskId task, Seconds begin, Seconds end, Breakdown& b) {
        BackWalk walk(graph_, costs_, timeline_, task);
        Seconds* part = &b.host;
        for (PathSegment segment; end > begin && walk.step(segment);) {
            part = &cause(segment, b);
            const Seconds start = std::clamp(
                segment.issue ? end - segment.time : timeline_.start[segment.task], begin, end);
            *part += end - start;
            end = start;
        }
        *part += end - begin;  // rounding errors
    }

    Seconds& cause(const PathSegment& segment, Breakdown& b) {
        if (segment.issue) return segment.rank == rank_ ? b.host : of_rank(segment.rank, b);
        if (graph_.on_host(segment.task) && occupies(graph_, segment.task, rank_)) return b.host;
        for (const Place& place : graph_.places(segment.task))
            if (Seconds& part = of_rank(place.rank(), b); &part == &b.bubble) return part;
        return b.imbalance;
    }
    Seconds& of_rank(int other, Breakdown& b) {
        if (stages_.empty()) stages_ = pipeline_stages(graph_);
        const int its = stages_[as_index(other)], own = stages_[as_index(rank_)];
        return its == own ? b.imbalance : b.bubble;
    }

    const TaskGraph& graph_;
    const Costs& costs_;
    const Timeline& timeline_;
    int rank_;
    std::vector<int> stages_;
};

}  // namespace

std::vector<int> pipeline_stages(const TaskGraph& graph) {
    std::vector<int> first(as_index(graph.rank_count())), stage(first.size());
    std::iota(first.begin(), first.end(), 0);
    if (std::ranges::none_of(graph.ops(),
                             [](const Op& op) { return std::holds_alternative<SendRecv>(op); }))
        return stage;
    const auto find = [&](int rank) {
        while (first[as_index(rank)] != rank) rank = first[as_index(rank)];
        return rank;
    };
    for (TaskId t = 0; t < graph.size(); ++t) {
        if (!std::holds_alternative<SendRecv>(graph.op(t))) continue;
        const int a = find(graph.places(t).front().rank()), b = find(graph.places(t).back().rank());
        first[as_index(std::max(a, b))] = std::min(a, b);
    }
    std::vector<int> met(first.size());
    for (const std::size_t rank : indices_of(stage))
        stage[rank] = met[as_index(find(as_int(rank)))]++;
    return stage;
}

int slowest_rank(const TaskGraph& graph, const Timeline& timeline) {
    std::vector<Seconds> end(as_index(graph.rank_count()));
    for (TaskId t = 0; t < graph.size(); ++t)
        for (const Place& place : graph.places(t)) {
            Seconds& last = end[as_index(place.rank())];
            last = std::max(last, timeline.finish[t]);
        }
    return as_int(std::max_element(end.begin(), end.end()) - end.begin());
}

Breakdown breakdown(const TaskGraph& graph, const Costs& costs, const Timeline& timeline,
                    int rank) {
    Breakdown b;
    Waits waits(graph, costs, timeline, rank);
    std::array<int, part_count> running{};
    Seconds now;
    for (const BusyChange& change : busy_changes(graph, timeline, rank)) {
        if (change.time > now) {
            const auto busy =
                std::find_if(running.begin(), running.end(), [](int count) { return count > 0; });
            if (busy != running.end())
                part_sum(b, static_cast<Part>(busy - running.begin())) += change.time - now;
            else
                waits.before(change.task, now, b);
            now = change.time;
        }
        running[part_of(graph.op(change.task))] += change.delta;
    }
    waits.at_end(now, b);
    return b;
}

}  // namespace stepcast
