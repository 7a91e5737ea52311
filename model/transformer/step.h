// One training step of a transformer, with every kind of parallelism.
#pragma once

#include <vector>

#include "model/experiment.h"
#include "model/graph/task_graph.h"
#include "model/routing.h"
#include "model/step.h"

namespace stepcast {

// True if all ranks of a stage do the same: routing is balanced, and groups have the same placement
// on every node.
bool can_fold(const Experiment& experiment, const Routing& routing);

// `routing` is that of one expert-parallel group; empty = balanced. A folded graph has one rank per
// stage. Its tasks carry labels.
TaskGraph build_transformer_step(const Experiment& experiment, const Routing& routing,
                                 Folding folding = Folding::automatic);

}  // namespace stepcast
