#include "sim/memory/memory_points.h"

#include <algorithm>
#include <limits>
#include <map>

#include "model/base/numbers.h"
#include "sim/memory/allocator_forecast.h"

namespace stepcast {
namespace {

struct SlotTimes {
    int stage = 0;
    Seconds start{std::numeric_limits<double>::infinity()}, finish;
};

// By rank and slot.
std::map<std::pair<int, int>, SlotTimes> times_of(const TaskGraph& graph, const Trace& trace) {
    std::map<std::pair<int, int>, SlotTimes> times;
    for (const Span& span : trace.spans) {
        const TaskLabel& label = graph.label(span.task);
        if (span.place.lane() != Lane::compute || label.slot < 0) continue;
        SlotTimes& t = times[{span.place.rank(), label.slot}];
        t.stage = label.stage;
        t.start = std::min(t.start, span.start);
        t.finish = std::max(t.finish, span.finish);
    }
    return times;
}

}  // namespace

std::vector<MemoryPoint> memory_points(const Experiment& e, const Routing& routing,
                                       const TaskGraph& graph, const Trace& trace) {
    if (!graph.has_labels() || !is_replayed(e)) return {};
    std::vector<std::vector<SlotMemory>> stages;
    for (int stage = 0; stage < e.parallelism.pp; ++stage)
        stages.push_back(memory_of_slots(e, routing, stage));
    if (stages.front().empty()) return {};
    std::vector<MemoryPoint> points;
    int rank = -1;
    Seconds last;
    for (const auto& [key, t] : times_of(graph, trace)) {
        const auto& stage = stages[as_index(t.stage)];
        if (key.first != rank) {
            rank = key.first;
            last = Seconds(0);
            points.push_back({rank, last, stage.back().after});  // as after a step
        }
        const auto slot = as_index(key.second), update = stage.size() - 1;
        if (slot >= update) continue;
        // of slots that alternate, as if the second ran when the first has ended
        points.push_back({rank, std::max(t.start, last), stage[slot].during});
        last = std::max(t.finish, last);
        points.push_back(
            {rank, last, slot + 1 < update ? stage[slot].after : stage[update].during});
    }
    return points;
}

}  // namespace stepcast
