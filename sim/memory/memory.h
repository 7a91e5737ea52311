// Memory of the fullest rank, for each kind of workload. `peak` is what tensors take (frameworks
// print it as allocated). `overheads` (cluster.overheads) come on top and count for `fits`.
#pragma once

#include <vector>

#include "model/experiment.h"
#include "model/runtime_rules.h"
#include "sim/results/forecast.h"

namespace stepcast {

// Completes a result from its weights, gradients, optimizer, activations and buffers. Adds to the
// buffers what the allocator reserves beyond them (runtime.reserved: free pieces that nothing
// fits into), and computes the peak, the device's overheads, and `fits`.
MemoryUse summed_up(MemoryUse use, const Experiment& experiment);

// The chance that what a device holds besides its context, `held` by the forecast, exceeds what it
// can give: by the spread of measured peaks over forecasts ([memory] of scatter.toml).
double chance_out_of_memory(const Experiment& experiment, Bytes held, Bytes available);

// Bytes of optimizer state for a parameter that takes `stored` bytes: a master copy if that is less
// than fp32, and Adam's moments. Without master weights only the moments, in the parameter's type.
// Nothing if the host keeps them. Of a matrix Muon has one of the two moments.
Bytes optimizer_bytes(const Experiment& experiment, Bytes stored);
// The moments of it.
Bytes moment_bytes(const Experiment& experiment, Bytes stored);

// Whether what fits leaves less free than cluster.overheads.margin, or is likely enough to fail.
bool is_tight(const Experiment& experiment, Bytes needed, const MemoryUse& use);

// A transformer: states under each ZeRO stage, activations as the pipeline schedule keeps them, and
// buffers. The first function returns the fullest stage. `routing` is of one expert-parallel group,
// and its fullest rank counts; an empty routing is balanced.
MemoryUse transformer_memory(const Experiment& experiment, const Routing& routing = {});
std::vector<MemoryUse> memory_of_stages(const Experiment& experiment, const Routing& routing = {});

// The peak of a rank of one stage for each slot in schedule order: while the slot runs, and after
// it has ended.
struct SlotMemory {
    Bytes during, after;
};
std::vector<SlotMemory> memory_of_slots(const Experiment& experiment, int stage,
                                        const Routing& routing = {});

// A contrastive captioner under ZeRO stage 1.
MemoryUse coca_memory(const Experiment& experiment);

// A plain eager PyTorch step on one GPU (runtime.kernels = script), tensor by tensor as automatic
// differentiation saves them. It is what torch.cuda.max_memory_allocated() returns, without the
// allocator's rounding.
MemoryUse eager_memory(const Experiment& experiment);

}  // namespace stepcast
