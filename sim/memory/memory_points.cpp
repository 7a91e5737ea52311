#include "sim/memory/memory_points.h"

#include <algorithm>
#include <limits>
#include <map>

#include "model/base/numbers.h"
#include "sim/memory/transformer_memory.h"

namespace stepcast {
namespace {

// Stages have slots, in which ranks have times.
using SlotOfStage = std::pair<int, int>;

// Which tasks count as those of a slot: of two slots that alternate, the first gets the first half
// of their tasks, as if they ran one after the other.
class SlotTasks {
public:
    explicit SlotTasks(const TaskGraph& graph) : graph_(graph) {
        for (TaskId t = 0; t < graph.size(); ++t) {
            const TaskLabel& label = graph.label(t);
            if (label.slot < 0) continue;
            Range& range = ranges_[{label.stage, label.slot}];
            range = {std::min(range.first, t), std::max(range.last, t + 1)};
        }
        for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
            const auto next = std::next(range);
            if (next == ranges_.end() || next->first.first != range->first.first ||
                next->second.first >= range->second.last)
                continue;
            const TaskId first = std::min(range->second.first, next->second.first),
                         last = std::max(range->second.last, next->second.last),
                         half = first + (last - first) / 2;
            range->second = {first, half};
            next->second = {half, last};
        }
    }
    // -1: none
    [[nodiscard]] int slot_of(TaskId t) const {
        const TaskLabel& label = graph_.label(t);
        if (label.slot < 0) return -1;
        const Range& range = ranges_.at({label.stage, label.slot});
        return t < range.first ? label.slot - 1 : t < range.last ? label.slot : label.slot + 1;
    }

private:
    struct Range {
        TaskId first = no_task, last = 0;
    };
    const TaskGraph& graph_;
    std::map<SlotOfStage, Range> ranges_;
};

struct SlotTimes {
    int stage = 0;
    Seconds start{std::numeric_limits<double>::infinity()}, finish;
};

// By rank and slot.
std::map<std::pair<int, int>, SlotTimes> times_of(const TaskGraph& graph, const Trace& trace) {
    const SlotTasks tasks(graph);
    std::map<std::pair<int, int>, SlotTimes> times;
    for (const Span& span : trace.spans) {
        if (span.place.lane() != Lane::compute) continue;
        const int slot = tasks.slot_of(span.task);
        if (slot < 0) continue;
        SlotTimes& t = times[{span.place.rank(), slot}];
        t.stage = graph.label(span.task).stage;
        t.start = std::min(t.start, span.start);
        t.finish = std::max(t.finish, span.finish);
    }
    return times;
}

}  // namespace

std::vector<MemoryPoint> memory_points(const Experiment& e, const Routing& routing,
                                       const TaskGraph& graph, const Trace& trace) {
    if (!graph.has_labels()) return {};
    std::vector<std::vector<SlotMemory>> stages;
    for (int stage = 0; stage < e.parallelism.pp; ++stage)
        stages.push_back(memory_of_slots(e, stage, routing));
    std::vector<MemoryPoint> points;
    int rank = -1;
    for (const auto& [key, t] : times_of(graph, trace)) {
        const auto& stage = stages[as_index(t.stage)];
        if (key.first != rank) {
            rank = key.first;
            // as after a step: nothing waits
            if (!stage.empty()) points.push_back({rank, Seconds(0), stage.back().after});
        }
        const auto slot = as_index(key.second);
        if (slot >= stage.size()) continue;
        points.push_back({rank, t.start, stage[slot].during});
        points.push_back({rank, t.finish, stage[slot].after});
    }
    return points;
}

}  // namespace stepcast
