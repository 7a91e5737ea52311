// A mixture-of-experts layer as a plain eager PyTorch script loops over its experts on one GPU: forward, backward of the
// mean square of its result; no optimizer.
#pragma once

#include "model/experiment.h"
#include "model/graph/task_graph.h"
#include "model/routing.h"

namespace stepcast {

// `routing`: of one rank; an expert without tokens is not called.
TaskGraph build_eager_moe_step(const Experiment& experiment, const Routing& routing);

}  // namespace stepcast
