// The memory of a transformer's fullest rank in closed form.
#pragma once

#include <vector>

#include "model/experiment.h"
#include "sim/results/forecast.h"

namespace stepcast {

// A transformer: states under each ZeRO stage, activations as the pipeline schedule keeps them, and
// buffers. The first function returns the fullest stage. `routing` is of one expert-parallel group,
// and its fullest rank counts; an empty routing is balanced.
MemoryUse transformer_memory(const Experiment& experiment, const Routing& routing = {});
std::vector<MemoryUse> memory_of_stages(const Experiment& experiment, const Routing& routing = {});

// A plain eager script (runtime.kernels = script) as the runtime of a framework that keeps the same
// tensors: weights, gradients and moments of one type, gradients that go with the step, and the
// loss of fp32 logits, which keeps their logarithm of the softmax (notes/pytorch.md).
Experiment as_eager(Experiment script);

}  // namespace stepcast
