// Whether a trace shows a graph at all, before its times are asked about (check_trace in model/graph/trace.h).
#pragma once

#include <string>

#include "model/graph/trace.h"

namespace stepcast {

// "" when the spans are the graph's tasks in their order, each on its places and of no negative length; else the first that
// is not.
std::string span_mismatch(const TaskGraph& graph, const Trace& trace);

}  // namespace stepcast
