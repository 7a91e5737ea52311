// What a reader should know about an experiment that is legal: values that no run has, keys that
// change nothing because the feature that they belong to is off, and what device or framework lack.
#pragma once

#include <string>
#include <vector>

#include "model/experiment.h"

namespace stepcast {

// Sentences that begin with a key.
std::vector<std::string> remarks_on(const Experiment& experiment);

// False if the experiment names a framework whose values its step does not read.
bool framework_has_effect(const Experiment& experiment);

}  // namespace stepcast
