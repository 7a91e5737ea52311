// The memory of each rank over time.
#pragma once

#include "model/experiment.h"
#include "model/graph/trace.h"
#include "model/routing.h"

namespace stepcast {

// The memory of each rank during and after each slot of its stage. `graph` is that of the
// experiment; empty where memory over time is not modelled.
std::vector<MemoryPoint> memory_points(const Experiment& experiment, const Routing& routing,
                                       const TaskGraph& graph, const Trace& trace);

}  // namespace stepcast
