// Which sizes of a step lie outside of what the cluster's tables and fits were made from.
#pragma once

#include <vector>

#include "model/cluster.h"
#include "model/graph/task_graph.h"
#include "sim/results/note.h"

namespace stepcast {

// One line for each size that lies outside the measured tables, or outside the sizes that laws were
// fitted on (cluster.fitted->ranges), such as "extrapolated: gemm.n up to 128256, fitted on 512 to
// 16384". In alphabetical order; empty if there is none.
std::vector<Note> extrapolations(const TaskGraph& graph, const Cluster& cluster);

}  // namespace stepcast
