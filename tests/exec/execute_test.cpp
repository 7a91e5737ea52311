#include <catch2/catch.hpp>

#include "exec/execute.h"
#include "exec/host_device.h"
#include "tests/exec/all_ops.h"

using namespace stepcast;

namespace {

ExecuteOptions two_steps() {
    ExecuteOptions options;
    options.steps = 2;
    options.warmup = 1;
    options.check_idle = false;
    options.retry.extra_steps = 0;
    options.timeout = Seconds(30);
    return options;
}

}  // namespace

TEST_CASE("every op runs on two thread ranks and leaves a whole trace a step") {
    const TaskGraph graph = all_ops(3);
    const Measurement measurement = execute(graph, *open_host_device(2), two_steps());
    REQUIRE(measurement.steps.size() == 2);
    REQUIRE(measurement.traces.size() == 2);
    for (const Trace& trace : measurement.traces) {
        CHECK(trace.origin == Trace::Origin::executed);
        CHECK_NOTHROW(check_trace(graph, trace));
    }
    CHECK(measurement.steps[0].times.step == step_end(measurement.traces[0]));
    // of rank 0, by kind: gemm, groups, copied blocks, attention and its backward, passes and their
    // transposed one, ..
    const std::vector<std::string> ran(measurement.kernels.begin(),
                                       measurement.kernels.begin() + 6);
    CHECK(ran == std::vector<std::string>{
                     "gemm, 1 task: OpenBLAS, in fp32",
                     "grouped_gemm, 2 tasks: OpenBLAS, in fp32, a product for each group",
                     "fused_gemm, 2 tasks: OpenBLAS, in fp32, by blocks, between copies of rows",
                     "attention, 2 tasks: OpenBLAS, in fp32, head by head: the scores of one head "
                     "lie in memory",
                     "memory_pass, 2 tasks: own streaming loop",
                     "memory_pass, 1 task: own transposing loop"});
    CHECK(measurement.kernels.size() == 6 + 8 + 1);  // eight exchanges, the host's work
}

// Some milliseconds on rank 0, which the other rank's task waits for in every step; execute()
// refuses a trace in which it does not.
TEST_CASE("a task waits for its predecessor on another rank in every step") {
    TaskGraph graph(2, true);
    const TaskId slow = graph.add("slow", Phase::forward, MemoryPass{Bytes(2e7), Bytes(2e7)},
                                  {Place(0, Lane::compute)}, {});
    graph.add("next", Phase::forward, MemoryPass{Bytes(64), Bytes(64)}, {Place(1, Lane::compute)},
              {slow});
    const Measurement measurement = execute(graph, *open_host_device(2), two_steps());
    for (const Trace& trace : measurement.traces)
        CHECK(trace.spans[1].start >= trace.spans[0].finish - Seconds(1e-4));
}

TEST_CASE("a rank may go on once it has left a collective that another rank still leaves") {
    // The exchange ends at 2 on rank 0 and at 3 on rank 1; each rank's next task starts right then,
    // and no earlier.
    TaskGraph graph(2, true);
    const TaskId exchange = graph.add("exchange", Phase::forward, Barrier{},
                                      {Place(0, Lane::collective), Place(1, Lane::collective)}, {});
    graph.add("next", Phase::forward, Barrier{}, {Place(0, Lane::compute)}, {exchange});
    Trace trace{Trace::Origin::executed,
                {{0, Place(0, Lane::collective), Seconds(1), Seconds(2)},
                 {0, Place(1, Lane::collective), Seconds(1), Seconds(3)},
                 {1, Place(0, Lane::compute), Seconds(2), Seconds(4)}}};
    CHECK_NOTHROW(check_trace(graph, trace));
    trace.spans[2].start = Seconds(1.9);
    CHECK_THROWS_AS(check_trace(graph, trace), std::logic_error);
}
