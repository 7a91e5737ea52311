// Labels of a step's tasks and the memory of its ranks over time, from what the builder of the graph knew.
#pragma once

#include "model/experiment.h"
#include "model/graph/trace.h"
#include "model/routing.h"
#include "model/step.h"

namespace stepcast {

StepLabels step_labels(const Experiment& experiment, const Routing& routing, const TaskGraph& graph, Folding folding = Folding::automatic);

// While and after each slot of the rank's stage; nothing where memory is not known over time.
std::vector<MemoryPoint> memory_points(const Experiment& experiment, const Routing& routing, const TaskGraph& graph,
                                       const Trace& trace, Folding folding = Folding::automatic);

}  // namespace stepcast
