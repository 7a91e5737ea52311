// What each switch and each neighbour of the split, changed alone, makes of a step.
#pragma once

#include <vector>

#include "model/experiment.h"
#include "sim/as_run.h"
#include "sim/results/lever.h"

namespace stepcast {

// Transformers only. The switches are the names and booleans of [runtime] that the step reads, the
// ZeRO stages, recompute modes, schedules and layouts; the neighbours of the split have half and
// twice the tp, pp, cp, ep, vp and micro_batch, on the same ranks and the same sequences. Each is
// the forecast of `simulate` with these keys set, but for its p10 and p90 with balanced experts,
// which take what drawn ones do to the step as it is; those that cannot be, or change neither step
// nor memory, are left out. Fastest first, those that do not fit behind, rates of the machine last.
std::vector<Lever> levers(const Experiment& experiment);

// Adds the layout that puts less beside the logits, if the framework has one, and its step.
void add_stage_lever(const AsRun& run, UnequalStages& unequal);

// The experiment with a lever's keys.
Experiment with_lever(const Experiment& experiment, const std::vector<Override>& set);

}  // namespace stepcast
