// A trace as Chrome trace JSON: opens in Perfetto and chrome://tracing.
#pragma once

#include <string>

#include "model/trace.h"

namespace stepcast {

// One process per rank, one track per lane, times in microseconds; simulated and executed traces look the same.
// Writes beside the file and renames, so that no half file is left. Throws ConfigError when it cannot be written.
void write_chrome_trace(const TaskGraph& graph, const Trace& trace, const std::string& path);

}  // namespace stepcast
