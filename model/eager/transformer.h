// A whole training step of a GPT as a plain eager PyTorch script writes it: pre-norm blocks with biases, learned positions,
// untied logits without bias, cross entropy over fp32 logits, fused AdamW in the parameters' type, one GPU.
#pragma once

#include "model/experiment.h"
#include "model/graph/task_graph.h"

namespace stepcast {

TaskGraph build_eager_transformer_step(const Experiment& experiment);

// Of a Workload and Parallelism that build_eager_transformer_step() or the eager MoE layer cannot write: throws ConfigError, key
// first.
void check_eager(const Experiment& experiment);

}  // namespace stepcast
