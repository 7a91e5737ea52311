// Rules for models of several towers, one function each. A complaint begins with the key at fault.
#pragma once

#include "model/experiment.h"

namespace stepcast {

void check_coca(const Experiment& experiment);

}  // namespace stepcast
