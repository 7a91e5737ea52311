// A training step of a plain network under data parallelism.
#pragma once

#include "model/experiment.h"
#include "model/graph/task_graph.h"

namespace stepcast {

// A dense multi-layer perceptron under data parallelism. Gradients are all-reduced in buckets, in
// the order of the backward: a bucket of runtime.gradients.bucket bytes is sent as soon as it is
// full, overlapped with the rest of the backward (runtime.exchanges.gradients) or after it.
TaskGraph build_mlp_step(const Experiment& experiment);

}  // namespace stepcast
