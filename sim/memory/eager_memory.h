// A = tokens x hidden elements, F = tokens x inner width. A layer saves 8 A + 2 F: its input, the
// results of two norms, q, k and v (3 A), the result of attention, the middle of the residual
// stream, and the inner width before and after GELU. It also saves means and deviations of two
// norms (16 bytes a token) and, with flash attention, the logarithm of each row's sum (4 bytes a
// token and head), or, with plain attention, the softmax's result. The ends save input and result
// of the final norm, and logarithms of the softmax in fp32. Gradients have the parameters' type.
// The fullest moment is the softmax's backward (two more fp32 tensors of the logits' size), the
// first layer's backward (in one of its blocks), the last gradient of all, or the optimizer.
// Checked against the storages that live while PyTorch runs such a step on shapes alone
// (notes/pytorch.md): equal to the MiB.
#pragma once

#include "model/experiment.h"
#include "sim/results/forecast.h"

namespace stepcast {

// A plain eager PyTorch step on one GPU (runtime.kernels = script), tensor by tensor as automatic
// differentiation saves them. It is what torch.cuda.max_memory_allocated() returns, without the
// allocator's rounding.
MemoryUse eager_memory(const Experiment& experiment);

}  // namespace stepcast
