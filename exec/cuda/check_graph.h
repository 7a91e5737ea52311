// What of a graph a CUDA device can run, told before anything runs.
#pragma once

#include <string>
#include <vector>

#include "exec/cuda_plugin.h"

namespace stepcast {

// `processes`: ranks are processes; `replay`: steps are CUDA graphs. Both throw ConfigError saying what to change.
void check_edges(const TaskGraph& graph, bool processes, bool replay);
void check_ops(const TaskGraph& graph, const CudaGpu& gpu, bool processes);

// What runs otherwise than the graph says: one line each.
std::vector<std::string> execution_doubts(const TaskGraph& graph);

}  // namespace stepcast
