// Builds the TaskGraph of an experiment and its routing: the tasks with their sizes, lanes and
// predecessors.
#pragma once

#include "model/experiment.h"
#include "model/graph/task_graph.h"
#include "model/routing.h"

namespace stepcast {

// The routing of one Monte Carlo draw of this experiment (empty Routing for a workload without
// experts).
Routing routing_of(const Experiment& experiment, int draw = 0);

// Whether one rank represents all ranks that do the same. A simulation needs only one; an execution
// needs all.
enum class Folding : std::uint8_t { automatic, never };

// One training step. Throws ConfigError with the key if the combination is not supported.
TaskGraph build_step(const Experiment& experiment, const Routing& routing,
                     Folding folding = Folding::automatic);

// The steps per kind of workload that build_step() writes; transformers are in
// model/transformer/step.h.

}  // namespace stepcast
