// Reads a log's runs: recognises the dialect, and has what the dialects share.
#pragma once

#include <string>

#include "import/logs/import.h"

namespace stepcast {

ImportResult stream_log(const std::string& path, const ImportRequest& how, const TakeRun& take);

}  // namespace stepcast
