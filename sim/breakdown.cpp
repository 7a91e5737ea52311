#include "sim/breakdown.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace stepcast {
namespace {

// In order of precedence when several run at once.
enum Part { compute, memory, communication, host, part_count };

Part part_of(const Op& op) {
    if (is_compute(op)) return compute;
    if (std::holds_alternative<MemoryPass>(op)) return memory;
    return std::holds_alternative<HostWork>(op) ? host : communication;
}

struct Change {
    Seconds time;
    int delta;  // -1 before +1 at equal times, so that back-to-back tasks leave no gap
    TaskId task;
};

std::vector<Change> changes_of(const TaskGraph& graph, const Timeline& timeline, int rank) {
    std::vector<Change> changes;
    for (TaskId t = 0; t < graph.size(); ++t) {
        const auto places = graph.places(t);
        if (std::none_of(places.begin(), places.end(), [&](const Place& p) { return p.rank() == rank; })) continue;
        changes.push_back({timeline.start[t], +1, t});
        changes.push_back({timeline.finish[t], -1, t});
    }
    std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
        return std::tie(a.time, a.delta, a.task) < std::tie(b.time, b.delta, b.task);
    });
    return changes;
}

// Nothing runs on the rank for `gap` before `next` starts there.
void add_gap(const TaskGraph& graph, const Costs& costs, TaskId next, Seconds gap, Breakdown& b) {
    const Seconds issuing = std::min(gap, costs.issue[next]);
    b.host += issuing;
    const bool others = graph.places(next).size() > 1 && !std::holds_alternative<SendRecv>(graph.op(next));
    (others ? b.imbalance : b.bubble) += gap - issuing;
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
    std::array<int, part_count> running{};
    Seconds now;
    for (const Change& change : changes_of(graph, timeline, rank)) {
        if (change.time > now) {
            const auto busy = std::find_if(running.begin(), running.end(), [](int count) { return count > 0; });
            if (busy != running.end()) part_sum(b, static_cast<Part>(busy - running.begin())) += change.time - now;
            else add_gap(graph, costs, change.task, change.time - now, b);
            now = change.time;
        }
        running[part_of(graph.op(change.task))] += change.delta;
    }
    b.bubble += timeline.end - now;
    return b;
}

}  // namespace stepcast
