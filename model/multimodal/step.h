// One training step of a contrastive captioner (CoCa, arXiv 2205.01917) under data parallelism with ZeRO stage 1.
#pragma once

#include "model/experiment.h"
#include "model/graph/task_graph.h"
#include "model/step.h"

namespace stepcast {

// The rules of a coca experiment; throws ConfigError that begins with the key.
void check_coca(const Experiment& experiment);

TaskGraph build_coca_step(const Experiment& experiment, Folding folding = Folding::automatic);

}  // namespace stepcast
