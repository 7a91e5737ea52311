// Traces of run folders: one line a span, with a stamp of the graph that they belong to.
#pragma once

#include <string>

#include "model/records/run_folder.h"

namespace stepcast {

// First line `# stepcast trace 1, executed`, for runs with a third field `graph STAMP`; then the
// header task,rank,lane,start_s,finish_s.
std::string write_trace(const Trace& trace, const std::string& graph_stamp = "");

TraceFile read_trace(const std::string& path);

}  // namespace stepcast
