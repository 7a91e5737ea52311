// Dialect deepspeed: the wall-clock breakdown of old and recent versions ("forward" or "fwd", with
// and without ranks). The line of the whole-step timers ends a step; `_microstep` timers repeat the
// same times. Times are in milliseconds.
#pragma once

#include "import/logs/import.h"

namespace stepcast {

LineCounts import_deepspeed(const std::string& path, const TakeRun& take);

}  // namespace stepcast
