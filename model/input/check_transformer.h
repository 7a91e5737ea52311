// Rules for transformers, one function each. A complaint begins with the key at fault.
#pragma once

#include "model/experiment.h"

namespace stepcast {

// Each throws ConfigError that begins with the key to change, and applies only to its own workload
// kind or to eager_script.
void check_transformer(const Experiment& experiment);

}  // namespace stepcast
