// Shares the error of a forecast out over phases and kinds of operations.
#pragma once

#include <functional>
#include <vector>

#include "model/experiment.h"
#include "sim/costs/costs.h"
#include "sim/results/traced_step.h"

namespace stepcast {

// Compares two simulations: one with durations from the cost model, one with durations from an
// execution; issue costs are the cost model's in both. `durations`: measured, by task id of the
// unfolded step of this experiment (median_durations() of its execution). Throws ConfigError when
// the step has another number of tasks.
ErrorAttribution attribute_error(const Experiment& experiment,
                                 const std::vector<Seconds>& durations, Seconds measured);

// For each kind and phase, the durations of both sides over the tasks at places that `counted`
// accepts, and by how much the step would change if only these tasks took their predicted time. The
// largest effect comes first. `replayed`: the step with the measured costs.
std::vector<KindError> kind_errors(const TaskGraph& graph, const Costs& measured, Seconds replayed,
                                   const std::vector<Seconds>& predicted,
                                   const std::function<bool(const Place&)>& counted);

}  // namespace stepcast
