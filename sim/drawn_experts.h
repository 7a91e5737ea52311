// What a MoE step whose experts are taken as balanced leaves out.
#pragma once

#include "model/experiment.h"
#include "sim/results/forecast.h"

namespace stepcast {

// Balanced experts are the default, which no gate keeps to the token. Not where the routing is
// stated, or drawn anyway, or no expert is on another rank, or a capacity bounds the load.
bool balances_experts(const Experiment& experiment);
// The step with drawn choices, beside the step `balanced`. It is 0 where it has too many tasks to
// be simulated.
DrawnExperts drawn_experts(const Experiment& experiment, Seconds balanced);

// What drawn choices need, for those who print it: tables of many steps do not.
void add_drawn_memory(const Experiment& experiment, DrawnExperts& drawn);

}  // namespace stepcast
