// Graphs that a GPU runs to be calibrated.
#pragma once

#include <vector>

#include "model/graph/task_graph.h"

namespace stepcast {

// `ranks` ranks all run at once; fp8 graphs are included where the GPU has it. A graph takes some
// 50 ms, and all graphs with a dozen repetitions some two minutes on an H200. `bandwidth` is the
// memory's, 0 = unknown: a GPU eight times slower than an H200 gets shapes of half the length, so
// that a graph takes as long.
std::vector<TaskGraph> gpu_sweeps(int ranks, bool fp8, BytesPerSecond bandwidth);

}  // namespace stepcast
