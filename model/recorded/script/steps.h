// Training steps written out as small scripts run them, one kernel for each operation.
#pragma once

#include "model/experiment.h"
#include "model/graph/task_graph.h"
#include "model/routing.h"

namespace stepcast {

void check_eager(const Experiment& experiment);

// A GPT as in a plain eager PyTorch script on one GPU: pre-norm blocks with biases, learned
// positions, untied logits without bias, cross entropy over fp32 logits, fused AdamW in the
// parameters' type.
TaskGraph build_eager_transformer_step(const Experiment& experiment);

// A mixture-of-experts layer of such a script, which loops over the experts on one GPU: forward,
// and backward of the mean square of its result, without optimizer. `routing` is that of one rank;
// an expert without tokens is not called.
TaskGraph build_eager_moe_step(const Experiment& experiment, const Routing& routing);

}  // namespace stepcast
