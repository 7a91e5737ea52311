// The memory of each rank over time.
#pragma once

#include "model/experiment.h"
#include "model/graph/trace.h"
#include "model/routing.h"

namespace stepcast {

// What the tensors of each rank take during and after each slot of its stage; after the last one
// at most until the step ends. `graph` is that of the experiment; empty where nothing is replayed.
std::vector<MemoryPoint> memory_points(const Experiment& experiment, const Routing& routing,
                                       const TaskGraph& graph, const Trace& trace);

}  // namespace stepcast
