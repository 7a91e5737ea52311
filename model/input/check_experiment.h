// Rules across keys, one function each. A complaint begins with the key at fault.
#pragma once

#include "model/base/errors.h"
#include "model/experiment.h"
#include "model/framework.h"

namespace stepcast {

// Every cross rule (ranks = dp*tp*pp*cp, experts divide, sizes sane, ..); throws ConfigError.
void check_experiment(const Experiment& experiment);

// Refuses a value other than the default in a key that the workload kind does not model.
void check_default(const Experiment& experiment, std::string_view path);

}  // namespace stepcast
