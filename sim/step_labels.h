// Micro-batch and layer of each task, and the memory of each rank over time, from what the graph
// builder recorded.
#pragma once

#include "model/experiment.h"
#include "model/graph/trace.h"
#include "model/routing.h"
#include "model/step.h"

namespace stepcast {

StepLabels step_labels(const Experiment& experiment, const Routing& routing, const TaskGraph& graph,
                       Folding folding = Folding::automatic);

// The memory of each rank during and after each slot of its stage; empty where memory over time is
// not modelled.
std::vector<MemoryPoint> memory_points(const Experiment& experiment, const Routing& routing,
                                       const TaskGraph& graph, const Trace& trace,
                                       Folding folding = Folding::automatic);

}  // namespace stepcast
