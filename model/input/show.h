// An experiment or preset as runnable TOML: every effective key, and which source set it last.
#pragma once

#include <span>
#include <string>

#include "model/experiment.h"

namespace stepcast {

// Shows an experiment, workload or cluster, by preset name or file. Overrides need an experiment.
std::string show(const ExperimentSource& source, std::span<const Override> overrides);

}  // namespace stepcast
