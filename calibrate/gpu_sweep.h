// Calibrating GPUs: graphs of the same kind that a step is, one idea a graph. What they say is gpu_fit.h.
#pragma once

#include <vector>

#include "model/graph/task_graph.h"

namespace stepcast {

// Tasks by name, which tells what they are for. All but "head" and "align" are measured.
//   head       a long pass at the front, so that the host is ahead and kernels follow each other without a gap
//   align      a barrier
//   gemm       matrix products alone, plain and grouped
//   sustained  products inside a long sequence, as in a step: the clock that the power allows; attention
//   memory     passes of every access pattern
//   empty      kernels without work, issued one by one: the host's cost of a call
//   beside     products while a collective runs, and that collective
//   collectives go by their kind's name
//
// For `ranks` ranks that all run at once; with fp8 where the GPU has it. A graph takes some 50 ms, all of them with a
// dozen repetitions some two minutes on an H200. `bandwidth` is the memory's, 0 when unknown: a GPU eight times slower
// than an H200 gets shapes of half the length, so that it takes as long.
std::vector<TaskGraph> gpu_sweeps(int ranks, bool fp8, BytesPerSecond bandwidth);

}  // namespace stepcast
