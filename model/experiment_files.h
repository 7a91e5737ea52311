// Which files an experiment is read from.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/experiment.h"

namespace stepcast {

// Its own file, and those that it or an override names.
std::vector<std::string> files_of_experiment(const std::string& path_or_preset, std::span<const Override> overrides);

}  // namespace stepcast
