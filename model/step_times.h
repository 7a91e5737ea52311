// Step, forward, backward, gradient sync, optimizer: the common ground of prediction, execution and logs.
#pragma once

#include <array>

#include "model/trace.h"

namespace stepcast {

// As a log of the reporting rank would print it. Without a pipeline, `forward` runs from the start of the step to the
// end of the rank's last forward task, `backward` from there to the end of its last backward task (waits and overlapped
// communication inside), `gradient_sync` and `optimizer` are what follows, exposed. `step` is the whole step, over
// all ranks.
struct StepTimes {
    Seconds step, forward, backward, gradient_sync, optimizer;
    friend bool operator==(const StepTimes&, const StepTimes&) = default;
};

StepTimes step_times(const TaskGraph& graph, const Trace& trace, int reporting_rank = 0);

// The same from when the reporting rank's last task of each phase ends, and when the step ends.
StepTimes step_times(const std::array<Seconds, phase_count>& phase_end, Seconds step);

}  // namespace stepcast
