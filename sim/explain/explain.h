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

}  // namespace stepcast
