// Experiment (+ its routing) -> TaskGraph: which tasks with which sizes, on which lanes, after which.
#pragma once

#include "model/experiment.h"
#include "model/graph/task_graph.h"
#include "model/routing.h"

namespace stepcast {

// The routing of one Monte Carlo draw of this experiment (empty Routing for a workload without experts).
Routing routing_of(const Experiment& experiment, int draw = 0);

// Whether ranks that do the same are represented by one: a simulation needs no more, an execution needs all.
enum class Folding : std::uint8_t { automatic, never };

// One training step. Throws ConfigError when the combination is not supported, naming the key.
TaskGraph build_step(const Experiment& experiment, const Routing& routing, Folding folding = Folding::automatic);

}  // namespace stepcast
