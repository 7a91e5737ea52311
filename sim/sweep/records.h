// A sweep's points as text, one record a line, for its processes.
// Numbers read back to the last digit.
#pragma once

#include <string>
#include <string_view>

#include "sim/sweep/worker.h"

namespace stepcast {

// Whole lines, with their ends.
std::string records_of(const SweepJob& job);
std::string records_of(const SweepJobResult& result);

// Both throw ConfigError for text that holds no such records.
SweepJob job_of(std::string_view records);
SweepJobResult result_of(std::string_view records);

}  // namespace stepcast
