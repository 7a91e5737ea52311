// The first of the two simulations takes its durations from the cost model, the second from an execution.
#pragma once

#include "model/answers/attribution.h"
#include "model/experiment.h"

namespace stepcast {

// `durations`: measured, by task id of the unfolded step of this experiment (median_durations() of its execution).
// Issue costs are the cost model's in both. Throws ConfigError when the step has another number of tasks.
ErrorAttribution attribute_error(const Experiment& experiment, const std::vector<Seconds>& durations, Seconds measured);

}  // namespace stepcast
