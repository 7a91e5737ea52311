// A training step of CoCa as its recorded program ran it.
#pragma once

#include "model/experiment.h"
#include "model/graph/task_graph.h"
#include "model/step.h"

namespace stepcast {

// A contrastive captioner (CoCa, arXiv 2205.01917) under data parallelism with ZeRO stage 1.
TaskGraph build_coca_step(const Experiment& experiment, Folding folding = Folding::automatic);

}  // namespace stepcast
