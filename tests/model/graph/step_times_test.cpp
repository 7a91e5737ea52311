#include <catch2/catch.hpp>

#include "model/graph/step_times.h"
#include "tests/graphs.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::graphs;
using namespace stepcast::literals;

namespace {

// One task per phase and rank, in the given order, with given times.
struct Step {
    TaskGraph graph{2};
    Trace trace;
    void add(int rank, Phase phase, double start, double finish) {
        const TaskId t = graph.add("task", phase, small_gemm(), {compute(rank)}, {});
        trace.spans.push_back({t, compute(rank), Seconds(start), Seconds(finish)});
    }
};

}  // namespace

// Rank 0: forward to 2 (with a wait inside), backward to 5, sync to 6, optimizer to 7; rank 1 ends
// the step at 9.
TEST_CASE("phases follow one another on the reporting rank, the step is over all ranks") {
    Step step;
    step.add(0, Phase::forward, 0, 1);
    step.add(0, Phase::forward, 1.5, 2);
    step.add(0, Phase::backward, 2, 5);
    step.add(0, Phase::gradient_sync, 5, 6);
    step.add(0, Phase::optimizer, 6, 7);
    step.add(1, Phase::optimizer, 8, 9);
    CHECK(step_times(step.graph, step.trace) == StepTimes{9_s, 2_s, 3_s, 1_s, 1_s});
    CHECK(step_times(step.graph, step.trace, 1) == StepTimes{9_s, 0_s, 0_s, 0_s, 9_s});
}

// Gradient sync [3, 4] lies inside backward [2, 5]; only [5, 5.5] of the second is exposed.
TEST_CASE("gradient sync counts where backward does not hide it") {
    Step step;
    step.add(0, Phase::forward, 0, 2);
    step.add(0, Phase::gradient_sync, 3, 4);
    step.add(0, Phase::backward, 2, 5);
    CHECK(step_times(step.graph, step.trace) == StepTimes{5_s, 2_s, 3_s, 0_s, 0_s});
    step.add(0, Phase::gradient_sync, 5, 5.5);
    CHECK(step_times(step.graph, step.trace) == StepTimes{5.5_s, 2_s, 3_s, 0.5_s, 0_s});
}

// Two micro-batches: forward [0, 1], backward [1, 3], a wait, forward [4, 5], backward [5, 7] with
// a sum beside it, of which [7, 8] is exposed, optimizer to 9. Forward is 1 + 2 (a log's timer
// would include the wait before the forward), backward 4.
TEST_CASE("phases are summed over micro-batches") {
    Step step;
    step.add(0, Phase::forward, 0, 1);
    step.add(0, Phase::backward, 1, 3);
    step.add(0, Phase::forward, 4, 5);
    step.add(0, Phase::backward, 5, 7);
    step.add(0, Phase::gradient_sync, 6, 8);
    step.add(0, Phase::optimizer, 8, 9);
    CHECK(step_times(step.graph, step.trace) == StepTimes{9_s, 3_s, 4_s, 1_s, 1_s});
}

// The last of two stages: F [2, 3], B [3, 5], F [6, 7], B [7, 9]; then it waits for the first stage
// until 12, sums with it [12, 13] and updates its weights [13, 15]. Forward is 2, backward 4; the
// wait belongs to no later phase.
TEST_CASE("the drain of a pipeline is neither gradient sync nor optimizer") {
    Step step;
    const TaskId sent = step.graph.add("send", Phase::forward, SendRecv{Bytes(8)},
                                       {Place(0, Lane::send_up), Place(1, Lane::receive_up)}, {});
    step.trace.spans.push_back({sent, Place(0, Lane::send_up), 1_s, 2_s});
    step.trace.spans.push_back({sent, Place(1, Lane::receive_up), 1_s, 2_s});
    step.add(1, Phase::forward, 2, 3);
    step.add(1, Phase::backward, 3, 5);
    step.add(1, Phase::forward, 6, 7);
    step.add(1, Phase::backward, 7, 9);
    step.add(1, Phase::gradient_sync, 12, 13);
    step.add(1, Phase::optimizer, 13, 15);
    CHECK(step_times(step.graph, step.trace) == StepTimes{15_s, 2_s, 4_s, 1_s, 2_s});
}

TEST_CASE("a rank without tasks reports nothing but the step") {
    Step step;
    step.add(0, Phase::forward, 0, 2);
    CHECK(step_times(step.graph, step.trace, 1) == StepTimes{2_s, 0_s, 0_s, 0_s, 0_s});
}
