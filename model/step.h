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

// The steps of each kind of workload that build_step() writes; of transformers model/transformer/step.h.

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
