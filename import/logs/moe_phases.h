// Dialect moe-phases: between the STEP lines every rank prints its kernels and host phases,
// interleaved. Times are in milliseconds.
#pragma once

#include "import/logs/import.h"

namespace stepcast {

LineCounts import_moe_phases(const std::string& path, const TakeRun& take);

}  // namespace stepcast
