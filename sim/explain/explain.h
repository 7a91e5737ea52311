// Why a step takes as long as it does: its critical path and elasticities, the constants that it
// rests on, and where an error comes from.
#pragma once

#include <functional>
#include <vector>

#include "model/experiment.h"
#include "sim/engine/simulate.h"
#include "sim/results/explanation.h"
#include "sim/results/forecast.h"
#include "sim/results/traced_step.h"

namespace stepcast {

// Explains the step of the first draw of the routing, without noise.
Explanation explain(const Experiment& experiment);

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

// Which constants the step rests on: for each constant, its share of the critical path, largest
// first. A segment belongs to the constant that prices most of its op (the rate of a GEMM, the cost
// of a host call). `measured`: the cluster's own fit determined the constant, or a measured table
// answers. Shares add up to 1; a path without time has none. The timeline must be simulated with
// Record::waits.
std::vector<CostBasis> basis_of(const TaskGraph& graph, const Costs& costs,
                                const Timeline& timeline, const Cluster& cluster);

}  // namespace stepcast
