#include "sim/step_labels.h"

#include <algorithm>
#include <limits>
#include <map>

#include "model/transformer/step.h"
#include "sim/memory/memory.h"

namespace stepcast {
namespace {

// Only the graph builder of transformers records slots.
bool has_slots(const Experiment& e) {
    return e.workload.kind == Workload::Kind::transformer && !e.parallelism.eager_script;
}

struct SlotTimes {
    Seconds start{std::numeric_limits<double>::infinity()}, finish;
};

}  // namespace

StepLabels step_labels(const Experiment& e, const Routing& routing, const TaskGraph& graph,
                       Folding folding) {
    if (!has_slots(e)) return {};
    const WrittenSlots written = written_slots(e, routing, folding);
    StepLabels labels{std::vector<int>(graph.size(), -1), std::vector<int>(graph.size(), -1)};
    for (const WrittenSlot& slot : written.pieces)
        for (TaskId t = slot.first; t < slot.last; ++t)
            labels.micro_batch[t] = slot.slot.micro_batch;
    for (const WrittenLayer& layer : written.layers)
        for (TaskId t = layer.first; t < layer.last; ++t) labels.layer[t] = layer.layer;
    return labels;
}

std::vector<MemoryPoint> memory_points(const Experiment& e, const Routing& routing,
                                       const TaskGraph& graph, const Trace& trace,
                                       Folding folding) {
    if (!has_slots(e)) return {};
    const WrittenSlots written = written_slots(e, routing, folding);
    std::vector<std::size_t> slot_of(graph.size(), written.slots.size());
    for (std::size_t i = 0; i < written.slots.size(); ++i)
        for (TaskId t = written.slots[i].first; t < written.slots[i].last; ++t) slot_of[t] = i;
    // by rank and slot, which stand in the order of each stage
    std::map<std::pair<int, std::size_t>, SlotTimes> times;
    for (const Span& span : trace.spans) {
        if (span.place.lane() != Lane::compute || slot_of[span.task] == written.slots.size())
            continue;
        SlotTimes& t = times[{span.place.rank(), slot_of[span.task]}];
        t.start = std::min(t.start, span.start);
        t.finish = std::max(t.finish, span.finish);
    }
    std::vector<std::vector<SlotMemory>> stages;
    for (int stage = 0; stage < e.parallelism.pp; ++stage)
        stages.push_back(memory_of_slots(e, stage, routing));
    std::vector<MemoryPoint> points;
    int rank = -1;
    std::size_t slot = 0;
    for (const auto& [key, t] : times) {
        const auto& stage = stages[static_cast<std::size_t>(
            written.stage_of_rank[static_cast<std::size_t>(key.first)])];
        if (key.first != rank) {
            rank = key.first;
            slot = 0;
            // as after a step: nothing waits
            if (!stage.empty()) points.push_back({rank, Seconds(0), stage.back().after});
        }
        if (slot >= stage.size()) continue;
        points.push_back({rank, t.start, stage[slot].during});
        points.push_back({rank, t.finish, stage[slot].after});
        ++slot;
    }
    return points;
}

}  // namespace stepcast
