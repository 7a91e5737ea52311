// The end of every account of memory: what its parts make together.
#pragma once

#include "model/answers/forecast.h"
#include "model/experiment.h"

namespace stepcast {

// From the bytes of weights, gradients, optimizer, activations and buffers: what the framework's allocator holds beyond them
// (framework.reserved, counted with the buffers: blocks in pieces that nothing fits into), the peak, what the device must
// have beside it, and whether that fits.
MemoryUse summed_up(MemoryUse use, const Experiment& experiment);

}  // namespace stepcast
