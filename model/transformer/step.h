// One training step of a transformer under every parallelism.
#pragma once

#include "model/experiment.h"
#include "model/routing.h"
#include "model/step.h"
#include "model/task_graph.h"

namespace stepcast {

// Whether all ranks of a stage do the same: balanced routing, and groups that lie alike on every node.
bool can_fold(const Experiment& experiment, const Routing& routing);

// `routing`: of one expert-parallel group; empty = balanced. Folded, the graph has one rank a stage.
TaskGraph build_transformer_step(const Experiment& experiment, const Routing& routing,
                                 Folding folding = Folding::automatic);

}  // namespace stepcast
