// Memory of the fullest rank, by kind of workload. `peak` is what tensors take (what frameworks print as allocated);
// `overheads` (cluster.overheads) come on top and count for `fits`.
#pragma once

#include <vector>

#include "model/answers/forecast.h"
#include "model/experiment.h"

namespace stepcast {

// The end of every account. From the bytes of weights, gradients, optimizer, activations and buffers: what the framework's
// allocator holds beyond them (framework.reserved, counted with the buffers: blocks in pieces that nothing fits into), the
// peak, what the device must have on top of it, and whether that fits.
MemoryUse summed_up(MemoryUse use, const Experiment& experiment);

// Of the optimizer's state, of a parameter that is stored in so many: a master copy where that is less than fp32, and Adam's
// moments.
Bytes optimizer_bytes(Optimizer optimizer, Bytes stored);

// A transformer: states under each ZeRO stage, activations as the pipeline schedule keeps them, buffers; of the fullest
// stage, or of each. `routing`: of one expert-parallel group; the fullest rank counts; empty = balanced.
MemoryUse transformer_memory(const Experiment& experiment, const Routing& routing = {});
std::vector<MemoryUse> memory_of_stages(const Experiment& experiment, const Routing& routing = {});

// Of a rank of this stage along its order: while each slot runs, and when it has ended.
struct SlotMemory {
    Bytes during, after;
};
std::vector<SlotMemory> memory_of_slots(const Experiment& experiment, int stage, const Routing& routing = {});

// A contrastive captioner under ZeRO stage 1.
MemoryUse coca_memory(const Experiment& experiment);

// A plain eager PyTorch step on one GPU (parallelism.eager_script), tensor by tensor as its automatic differentiation saves
// them: what torch.cuda.max_memory_allocated() would say, less the allocator's rounding.
MemoryUse eager_memory(const Experiment& experiment);

}  // namespace stepcast
