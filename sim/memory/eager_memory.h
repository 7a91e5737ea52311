// Memory of a plain eager PyTorch training step on one GPU (model/eager/transformer.h), tensor by tensor as its automatic
// differentiation saves them.
#pragma once

#include "model/answers/forecast.h"
#include "model/experiment.h"

namespace stepcast {

// What torch.cuda.max_memory_allocated() would say, less the allocator's rounding.
MemoryUse eager_memory(const Experiment& experiment);

}  // namespace stepcast
