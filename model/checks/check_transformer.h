// Rules between the keys of a transformer and of how it is split. Internal to model/.
#pragma once

#include "model/experiment.h"

namespace stepcast {

// Throws ConfigError that begins with the key to change. Only for workload.kind transformer.
void check_transformer(const Experiment& experiment);

}  // namespace stepcast
