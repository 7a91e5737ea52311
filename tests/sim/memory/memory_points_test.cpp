#include <algorithm>

#include <catch2/catch.hpp>

#include "model/step.h"
#include "sim/engine/simulate.h"
#include "sim/memory/memory_points.h"
#include "sim/memory/transformer_memory.h"
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
// stage, from its first kernel to its last.
TEST_CASE("the memory of every rank follows the slots of its stage") {
    const Experiment e = two_stages();
    const TaskGraph graph = build_step(e, {});
    Timeline timeline;
    run(graph, price(graph, e.cluster), e.cluster.interference, timeline);
    std::vector<MemoryPoint> expected;
    for (const int stage : {0, 1}) {
        const std::vector<SlotMemory> memory = memory_of_slots(e, stage, {});
        REQUIRE(memory.size() == 6);
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
            expected.push_back({stage, finish, of_slot.after});
        }
    }
    CHECK(memory_points(e, {}, graph, to_trace(graph, timeline)) == expected);
    CHECK(memory_points(e, {}, TaskGraph(), {}).empty());
}
