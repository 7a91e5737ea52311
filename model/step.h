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

// A dense multi-layer perceptron under data parallelism. Gradients are all-reduced in buckets, in
// the order of the backward: a bucket of runtime.gradients.bucket bytes is sent as soon as it is
// full, overlapped with the rest of the backward (runtime.exchanges.gradients) or after it.
TaskGraph build_mlp_step(const Experiment& experiment);

// A contrastive captioner (CoCa, arXiv 2205.01917) under data parallelism with ZeRO stage 1.
TaskGraph build_coca_step(const Experiment& experiment, Folding folding = Folding::automatic);

// A GPT as in a plain eager PyTorch script on one GPU: pre-norm blocks with biases, learned
// positions, untied logits without bias, cross entropy over fp32 logits, fused AdamW in the
// parameters' type.
TaskGraph build_eager_transformer_step(const Experiment& experiment);

// A mixture-of-experts layer of such a script, which loops over the experts on one GPU: forward,
// and backward of the mean square of its result, without optimizer. `routing` is that of one rank;
// an expert without tokens is not called.
TaskGraph build_eager_moe_step(const Experiment& experiment, const Routing& routing);

}  // namespace stepcast
