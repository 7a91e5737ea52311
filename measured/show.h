// An experiment or preset as runnable TOML: every effective key, and which source set it last.
#pragma once

#include <span>
#include <string>

#include "model/experiment.h"

namespace stepcast {

// Shows an experiment, workload, cluster, framework (with the rules of those that it is based on)
// or family, by preset name or file. Overrides need an experiment.
std::string show(const ExperimentSource& source, std::span<const Override> overrides);

}  // namespace stepcast
