// A dense multi-layer perceptron under data parallelism.
#pragma once

#include "model/experiment.h"
#include "model/graph/task_graph.h"

namespace stepcast {

// One step. Gradients are all-reduced in buckets, in the order in which the backward makes them: a bucket goes out as
// soon as it holds parallelism.bucket bytes, beside the rest of the backward (parallelism.overlap) or after it.
TaskGraph build_mlp_step(const Experiment& experiment);

}  // namespace stepcast
