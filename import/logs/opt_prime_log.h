// Dialect opt-prime: the stages of a pipeline print the times of their leaf modules, layer by
// layer, and the last stage prints ms/batch. Stages print concurrently, so lines of several stages
// may be interleaved or share a line.
#pragma once

#include "import/logs/import.h"

namespace stepcast {

LineCounts import_opt_prime(const std::string& path, const TakeRun& take);

}  // namespace stepcast
