// One training step of a transformer, with every kind of parallelism.
#pragma once

#include <vector>

#include "model/experiment.h"
#include "model/graph/task_graph.h"
#include "model/routing.h"
#include "model/step.h"
#include "model/transformer/stages.h"

namespace stepcast {

// Those of a stage's ranks that represent all: one, if routing is balanced, else an expert-parallel
// group, as all of them have the same routing. All where groups lie differently on different nodes,
// or tasks of draws jitter each for itself.
StageRanks representatives(const Experiment& experiment, const Routing& routing);

// `routing` is that of one expert-parallel group; empty = balanced. A folded graph has only the
// representatives of each stage. Its tasks carry labels.
TaskGraph build_transformer_step(const Experiment& experiment, const Routing& routing,
                                 Folding folding = Folding::automatic);

}  // namespace stepcast
