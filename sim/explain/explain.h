// Experiment -> Explanation: why the step takes as long as it does, and what would change it.
#pragma once

#include "model/answers/explanation.h"
#include "model/experiment.h"

namespace stepcast {

// Of the first draw of the routing, without noise.
Explanation explain(const Experiment& experiment);

}  // namespace stepcast
