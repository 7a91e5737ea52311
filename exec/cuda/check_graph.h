// Checks, before anything runs, what of a graph a CUDA device can run.
#pragma once

#include <string>
#include <vector>

#include "exec/cuda_plugin.h"

namespace stepcast {

// `processes`: ranks are processes. `replay`: steps are CUDA graphs. Both throw ConfigError that
// says what to change.
void check_edges(const TaskGraph& graph, bool processes, bool replay);
void check_ops(const TaskGraph& graph, const CudaGpu& gpu, bool processes);

// One line for each thing that runs differently from the graph.
std::vector<std::string> execution_doubts(const TaskGraph& graph);

}  // namespace stepcast
