// An experiment or preset as TOML that can be run, every effective key with who said it last and where.
#pragma once

#include <span>
#include <string>

#include "model/experiment.h"

namespace stepcast {

// Of an experiment, or by name a workload or a cluster: a preset or a file. Overrides belong to an experiment.
std::string show(const ExperimentSource& source, std::span<const Override> overrides);

}  // namespace stepcast
