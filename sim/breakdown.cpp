#include "sim/breakdown.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "sim/explain/critical_path.h"

namespace stepcast {
namespace {

// In order of precedence when several run at once.
enum Part { compute, memory, communication, host, part_count };

Part part_of(const Op& op) {
    if (is_compute(op)) return compute;
    if (std::holds_alternative<MemoryPass>(op)) return memory;
    return std::holds_alternative<HostWork>(op) ? host : communication;
}

// A task of the rank starts (+1) or finishes (-1).
struct Change {
    Seconds time;
    int delta;  // finishes first, so that back-to-back tasks leave no gap
    TaskId task;
    Seconds issued;  // when the rank's host had issued the task: what it waited for after that is elsewhere
};

bool takes_part(const TaskGraph& graph, TaskId t, int rank) {
    return std::ranges::any_of(graph.places(t), [&](const Place& place) { return place.rank() == rank; });
}

// Follows the rank's host through its tasks by the rules of the engines (simulate.h).
std::vector<Change> changes_of(const TaskGraph& graph, const Costs& costs, const Timeline& timeline, int rank) {
    std::vector<Change> changes;
    Seconds host_free;
    for (TaskId t = 0; t < graph.size(); ++t) {
        if (!takes_part(graph, t, rank)) continue;
        const bool on_host = graph.on_host(t);
        const Seconds issued = on_host ? host_free : host_free + costs.issue[t];
        host_free = on_host || graph.launch_blocking() ? timeline.finish[t] : issued;
        changes.push_back({timeline.start[t], +1, t, issued});
        changes.push_back({timeline.finish[t], -1, t, issued});
    }
    std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
        return std::tie(a.time, a.delta, a.task) < std::tie(b.time, b.delta, b.task);
    });
    return changes;
}

// Whether what a task waited for since `begin` came from another stage of a pipeline: through a send or receive. The
// chain of what each task waited for is only needed where the task itself is none.
class Waits {
public:
    Waits(const TaskGraph& graph, const Costs& costs, const Timeline& timeline)
        : graph_(graph),
          costs_(costs),
          timeline_(timeline),
          has_sends_(
              std::ranges::any_of(graph.ops(), [](const Op& op) { return std::holds_alternative<SendRecv>(op); })) {}

    bool on_a_stage(TaskId t, Seconds begin) {
        if (!has_sends_) return false;
        if (std::holds_alternative<SendRecv>(graph_.op(t))) return true;
        if (bindings_.empty()) bindings_ = bindings(graph_, costs_, timeline_);
        BackWalk walk(graph_, costs_, timeline_, bindings_, t);
        for (PathSegment before; walk.step(before) && timeline_.finish[before.task] >= begin;)
            if (std::holds_alternative<SendRecv>(graph_.op(before.task))) return true;
        return false;
    }

private:
    const TaskGraph& graph_;
    const Costs& costs_;
    const Timeline& timeline_;
    bool has_sends_;
    std::vector<Binding> bindings_;
};

// Nothing runs on the rank from `begin` until `next` starts there: the host until it was issued, then another rank.
void add_gap(Waits& waits, const Change& next, Seconds begin, Breakdown& b) {
    const Seconds issued = std::clamp(next.issued, begin, next.time);
    b.host += issued - begin;
    if (issued == next.time) return;
    (waits.on_a_stage(next.task, issued) ? b.bubble : b.imbalance) += next.time - issued;
}

Seconds& part_sum(Breakdown& b, Part part) {
    switch (part) {
        case compute: return b.compute;
        case memory: return b.memory;
        case communication: return b.exposed_communication;
        default: return b.host;
    }
}

}  // namespace

int slowest_rank(const TaskGraph& graph, const Timeline& timeline) {
    std::vector<Seconds> end(static_cast<std::size_t>(graph.rank_count()));
    for (TaskId t = 0; t < graph.size(); ++t)
        for (const Place& place : graph.places(t)) {
            Seconds& last = end[static_cast<std::size_t>(place.rank())];
            last = std::max(last, timeline.finish[t]);
        }
    return static_cast<int>(std::max_element(end.begin(), end.end()) - end.begin());
}

Breakdown breakdown(const TaskGraph& graph, const Costs& costs, const Timeline& timeline, int rank) {
    Breakdown b;
    Waits waits(graph, costs, timeline);
    std::array<int, part_count> running{};
    Seconds now;
    for (const Change& change : changes_of(graph, costs, timeline, rank)) {
        if (change.time > now) {
            const auto busy = std::find_if(running.begin(), running.end(), [](int count) { return count > 0; });
            if (busy != running.end())
                part_sum(b, static_cast<Part>(busy - running.begin())) += change.time - now;
            else
                add_gap(waits, change, now, b);
            now = change.time;
        }
        running[part_of(graph.op(change.task))] += change.delta;
    }
    b.bubble += timeline.end - now;
    return b;
}

}  // namespace stepcast
