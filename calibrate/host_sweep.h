// Calibrating the host: graphs of the same kind that a step is, and what their measurements say about it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/measurement.h"
#include "model/task_graph.h"

namespace stepcast {

// Sweeps for `ranks` ranks that all run at once, as in a step: GEMM shapes (plain and as weight gradients), memory
// passes, every collective, empty tasks. Cut into graphs of some 40 ms, so that a disturbed repetition costs little.
std::vector<TaskGraph> host_sweeps(int ranks);

struct SweepResult {
    TaskGraph graph;
    Measurement measurement;
};

// A cluster of one node whose GPUs are this host's ranks: measured tables and curves, the laws fitted to them, noise,
// and how well a fifth of the points is predicted by the others. `memory` is what one rank may use.
Cluster fit_host(std::span<const SweepResult> results, const std::string& processor, Bytes memory);

}  // namespace stepcast
