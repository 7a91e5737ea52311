// Why a step takes what it takes: its critical path and elasticities, what its cost rests on, where an error comes from.
#pragma once

#include <functional>
#include <vector>

#include "model/answers/traced_step.h"
#include "model/answers/explanation.h"
#include "model/answers/forecast.h"
#include "model/experiment.h"
#include "sim/engine/simulate.h"

namespace stepcast {

// Why the step takes as long as it does, and what would change it: of the first draw of the routing, without noise.
Explanation explain(const Experiment& experiment);

// Of two simulations, of which the first takes its durations from the cost model, the second from an execution; issue costs are
// the cost model's in both. `durations`: measured, by task id of the unfolded step of this experiment (median_durations() of its
// execution). Throws ConfigError when the step has another number of tasks.
ErrorAttribution attribute_error(const Experiment& experiment, const std::vector<Seconds>& durations, Seconds measured);

// Durations of both sides by kind and phase, of the tasks that are at one of these places, and what the step would gain or lose if only
// those of a kind took what is predicted; the largest effect first. `replayed`: the step with the measured costs.
std::vector<KindError> kind_errors(const TaskGraph& graph, const Costs& measured, Seconds replayed, const std::vector<Seconds>& predicted,
                                   const std::function<bool(const Place&)>& counted);

// How much of a step rests on constants that were determined on its device, and how much on priors. Of the critical path: the share of each constant that prices most of a segment's op (the rate of a GEMM, the cost of a
// host's call), largest first. `measured`: the cluster's own fit determined it, or a measured table answers. Shares add up
// to 1; a path without time has none.
std::vector<CostBasis> basis_of(const TaskGraph& graph, const Costs& costs, const Timeline& timeline,
                                const Cluster& cluster);

}  // namespace stepcast
