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
    HostDevice device(2);
    const Measurement measurement = execute(graph, device, two_steps());
    REQUIRE(measurement.steps.size() == 2);
    REQUIRE(measurement.traces.size() == 2);
    for (const Trace& trace : measurement.traces) {
        CHECK(trace.origin == Trace::Origin::executed);
        CHECK_NOTHROW(check_trace(graph, trace));
    }
    CHECK(measurement.steps[0].times.step == step_end(measurement.traces[0]));
}
