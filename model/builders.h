// The steps of each kind of workload, for build_step().
#pragma once

#include "model/experiment.h"
#include "model/graph/task_graph.h"
#include "model/step.h"

namespace stepcast {

// A dense multi-layer perceptron under data parallelism. Gradients are all-reduced in buckets, in the order in which the
// backward makes them: a bucket goes out as soon as it holds parallelism.bucket bytes, overlapped with the rest of the
// backward (parallelism.overlap) or after it.
TaskGraph build_mlp_step(const Experiment& experiment);

// A contrastive captioner (CoCa, arXiv 2205.01917) under data parallelism with ZeRO stage 1.
TaskGraph build_coca_step(const Experiment& experiment, Folding folding = Folding::automatic);

// A GPT as a plain eager PyTorch script writes it: pre-norm blocks with biases, learned positions, untied logits without
// bias, cross entropy over fp32 logits, fused AdamW in the parameters' type, one GPU.
TaskGraph build_eager_transformer_step(const Experiment& experiment);

// A mixture-of-experts layer as such a script loops over its experts on one GPU: forward, backward of the mean square of its
// result; no optimizer. `routing`: of one rank; an expert without tokens is not called.
TaskGraph build_eager_moe_step(const Experiment& experiment, const Routing& routing);

}  // namespace stepcast
