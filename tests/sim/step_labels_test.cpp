#include "sim/step_labels.h"

#include <catch2/catch.hpp>

#include <algorithm>

#include "model/transformer/step.h"
#include "sim/gantt.h"
#include "sim/memory/memory.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

Experiment two_stages() {
    Experiment e = small_gpt();
    e.cluster.gpus_per_node = 2;
    e.parallelism.pp = 2;
    e.parallelism.global_batch = 3;
    return e;
}

}  // namespace

// A slot's tasks carry its micro-batch, a layer's tasks its number; tasks after the last of either
// carry none.
TEST_CASE(
    "a step's tasks are labelled with the micro-batch and the layer that they were written for") {
    const Experiment e = two_stages();
    const TaskGraph graph = build_step(e, {});
    const StepLabels labels = step_labels(e, {}, graph);
    const WrittenSlots written = written_slots(e, {});
    REQUIRE(labels.micro_batch.size() == graph.size());
    REQUIRE(labels.layer.size() == graph.size());
    std::vector<int> of_layers(4), of_slots(3);
    for (TaskId t = 0; t < graph.size(); ++t) {
        const auto slot = std::ranges::find_if(
            written.slots, [&](const WrittenSlot& s) { return s.first <= t && t < s.last; });
        const auto layer = std::ranges::find_if(
            written.layers, [&](const WrittenLayer& l) { return l.first <= t && t < l.last; });
        CHECK(labels.micro_batch[t] == (slot == written.slots.end() ? -1 : slot->slot.micro_batch));
        CHECK(labels.layer[t] == (layer == written.layers.end() ? -1 : layer->layer));
        if (labels.layer[t] >= 0) ++of_layers[static_cast<std::size_t>(labels.layer[t])];
        if (labels.micro_batch[t] >= 0) ++of_slots[static_cast<std::size_t>(labels.micro_batch[t])];
        if (graph.phase(t) == Phase::optimizer) CHECK(labels.micro_batch[t] == -1);
    }
    CHECK(of_layers == std::vector<int>(4, of_layers[0]));  // all layers are alike
    CHECK(of_slots == std::vector<int>(3, of_slots[0]));
    CHECK(of_layers[0] > 0);
    Experiment other = e;
    other.workload.kind = Workload::Kind::mlp;
    CHECK(step_labels(other, {}, graph).layer.empty());
    CHECK(memory_points(other, {}, graph, {}).empty());
}

// Points of each rank: the memory before the first slot, then during and after each slot of its
// stage, from its first kernel to its last.
TEST_CASE("the memory of every rank follows the slots of its stage") {
    const Experiment e = two_stages();
    const TaskGraph graph = build_step(e, {});
    Timeline timeline;
    run(graph, price(graph, e.cluster), e.cluster.interference, timeline);
    const WrittenSlots written = written_slots(e, {});
    std::vector<MemoryPoint> expected;
    for (const int stage : {0, 1}) {
        const std::vector<SlotMemory> memory = memory_of_slots(e, stage, {});
        REQUIRE(memory.size() == 6);
        expected.push_back({stage, Seconds(0), memory.back().after});
        std::size_t slot = 0;
        for (const WrittenSlot& w : written.slots) {
            if (w.stage != stage) continue;
            Seconds start = timeline.end, finish;
            for (TaskId t = w.first; t < w.last; ++t)
                if (const Place place = graph.places(t).front(); place.lane() == Lane::compute) {
                    REQUIRE(place.rank() == stage);
                    start = std::min(start, timeline.start[t]);
                    finish = std::max(finish, timeline.finish[t]);
                }
            expected.push_back({stage, start, memory[slot].during});
            expected.push_back({stage, finish, memory[slot++].after});
        }
    }
    CHECK(memory_points(e, {}, graph, to_trace(graph, timeline)) == expected);
}
