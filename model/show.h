// An experiment or preset as TOML that can be run, every effective key with who said it last and where.
#pragma once

#include <span>
#include <string>

#include "model/experiment.h"

namespace stepcast {

// `name` is an experiment, a workload or a cluster: a preset or a file. Overrides belong to an experiment.
std::string show(const std::string& name, std::span<const Override> overrides);

// The same of an experiment that is no file (experiment_text.h).
std::string show_text(const std::string& text, const std::string& path, std::span<const Override> overrides);

}  // namespace stepcast
