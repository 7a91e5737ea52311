// Dialect custom: logs that a pattern file describes.
#pragma once

#include "import/logs/import.h"
#include "import/logs/line_pattern.h"

namespace stepcast {

LineCounts import_custom(const std::string& path, const LogPattern& pattern, const TakeRun& take);

}  // namespace stepcast
