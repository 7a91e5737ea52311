#include <algorithm>

#include <catch2/catch.hpp>

#include "model/step.h"
#include "sim/engine/simulate.h"
#include "sim/memory/allocator_forecast.h"
#include "sim/memory/memory_points.h"
#include "tests/sim/memory/two_layers.h"
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

// Points of each rank: the memory before the first slot, then during and after each slot of its
// stage, from its first kernel to its last, behind which comes the update.
TEST_CASE("the memory of every rank follows the slots of its stage") {
    const Experiment e = two_stages();
    const TaskGraph graph = build_step(e, {});
    Timeline timeline;
    run(graph, price(graph, e.cluster), e.cluster.interference, timeline);
    std::vector<MemoryPoint> expected;
    for (const int stage : {0, 1}) {
        const std::vector<SlotMemory> memory = memory_of_slots(e, {}, stage);
        REQUIRE(memory.size() == 7);
        expected.push_back({stage, Seconds(0), memory.back().after});
        for (int slot = 0; slot < 6; ++slot) {
            Seconds start = timeline.end, finish;
            for (TaskId t = 0; t < graph.size(); ++t)
                if (graph.label(t).stage == stage && graph.label(t).slot == slot &&
                    graph.places(t).front().lane() == Lane::compute) {
                    REQUIRE(graph.places(t).front().rank() == stage);
                    start = std::min(start, timeline.start[t]);
                    finish = std::max(finish, timeline.finish[t]);
                }
            const SlotMemory& of_slot = memory[static_cast<std::size_t>(slot)];
            expected.push_back({stage, start, of_slot.during});
            expected.push_back({stage, finish, slot < 5 ? of_slot.after : memory[6].during});
        }
    }
    CHECK(memory_points(e, {}, graph, to_trace(graph, timeline)) == expected);
    CHECK(memory_points(e, {}, TaskGraph(), {}).empty());
}

// Of two layers by hand (lifetimes_test.cpp): a forward leaves 2 x 69,632 of layers, 2 x 4,096 of
// the final norm and 64,000 of logits, all multiples of 512, and its backward takes them away.
TEST_CASE("memory between slots is what forwards keep, whole steps long") {
    Experiment e = two_layers();
    e.parallelism.global_batch = 40;  // more micro-batches than it takes to repeat
    const std::vector<SlotMemory> slots = memory_of_slots(e, {}, 0);
    REQUIRE(slots.size() == 2 * 40 + 1);
    const Bytes begin = slots.back().after;
    for (std::size_t i = 0; i < 80; ++i)
        CHECK((slots[i].after - begin).si() == (i % 2 == 0 ? 2 * 69632 + 2 * 4096 + 64000 : 0));
}
