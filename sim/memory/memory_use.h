// Memory of the fullest rank. MoE layer: weights and gradients of the rank's experts and of the
// gate. Each layer keeps for the backward the slots before and after the experts and the inner
// vectors before and after GELU, for the rows that the rank computes (faster_moe and mix_moe
// compute some experts where their tokens are). Buffers: one all-to-all in and out. MLP: two
// weights a layer, its input and inner vectors, and gradient buckets. Not counted: weights of other
// ranks' experts that faster_moe and mix_moe bring to all ranks.
#pragma once

#include "model/experiment.h"
#include "sim/results/forecast.h"

namespace stepcast {

// Completes a result from its weights, gradients, optimizer, activations and buffers. Adds to the
// buffers what the allocator reserves beyond them (runtime.reserved: free pieces that nothing
// fits into), and computes the peak, the device's overheads, and `fits`. `process`:
// process_memory().
MemoryUse summed_up(MemoryUse use, const Experiment& experiment, Bytes process);

// Adds to what summed_up() returned the chance that it does not fit, and whether it is `tight`.
MemoryUse with_doubt(MemoryUse use, const Experiment& experiment, Bytes process);

// Both.
MemoryUse complete(const MemoryUse& use, const Experiment& experiment, Bytes process);

// The chance that what a device holds besides its context, `held` by the forecast, exceeds what it
// can give: by the spread of measured peaks over forecasts ([memory] of scatter.toml).
double chance_out_of_memory(const Experiment& experiment, Bytes held, Bytes available);

// Bytes of optimizer state for a parameter that takes `stored` bytes: a master copy if that is less
// than fp32, and Adam's moments. Without master weights only the moments, in the parameter's type.
// Nothing if the host keeps them. Of a matrix Muon has one of the two moments.
Bytes optimizer_bytes(const Experiment& experiment, Bytes stored);

// The moments of it. Paged ones are managed memory of the driver (bitsandbytes 0.50.2: F.get_paged
// for weights of 100,000 elements and more, prefetched before each update).
Bytes moment_bytes(const Experiment& experiment, Bytes stored);

// Whether no gradient stays on the device: of weights that the host keeps it cannot, since a
// gradient lies where its weight does (torch 2.11, _fully_shard/_fsdp_collectives.py:
// foreach_reduce, offload_to_cpu).
bool keeps_gradients_on_host(const Experiment& experiment);
// Whether they exist on the device only from a backward to the update.
bool frees_each_step(const Experiment& experiment);

// Whether what fits leaves less free than cluster.overheads.margin, or is likely enough to fail.
bool is_tight(const Experiment& experiment, Bytes needed, const MemoryUse& use);

// Memory of the fullest rank with this routing.
MemoryUse memory_use(const Experiment& experiment, const Routing& routing);

// How many different routings the draws have.
int drawn_routings(const Experiment& experiment);

// The draw that needs most, because a training meets all of them.
struct FullestDraw {
    MemoryUse use;
    Routing routing;
};
FullestDraw fullest_draw(const Experiment& experiment);
inline MemoryUse fullest_memory(const Experiment& e) { return fullest_draw(e).use; }

}  // namespace stepcast
