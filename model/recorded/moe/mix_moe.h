// mix_moe: tokens form blocks of 64 rows. Every rank computes the three most loaded experts for its
// own tokens. Kernel AG is GEMM1 fused with reads of remote rows; GA is GEMM2 fused with writes of
// results to their owners. There is no all-to-all. The host builds the block lists (gate, counts,
// lists) during the layer's attention, outside a timed layer; `assignment` is the part that the
// step waits for. Weights are transposed in every forward: E + 3 experts. Unless launches block,
// the device does not wait for the rest of the host's work. The block lists of a rank have its own
// rows of popular experts and all rows of its own experts. The recorded totals (1064 and 1032
// blocks for 1024 full ones) show that rows of one expert share blocks across source ranks.
// Block totals are known only of runs that printed them, with the timers of their phases: nine
// lines a forward and five a backward on each rank, each of which reads a clock and prints.
#pragma once

#include <vector>

#include "model/recorded/moe/known_systems.h"
#include "model/routing.h"

namespace stepcast {

// The experts that mix_moe computes on every rank, each rank for its own tokens.
std::vector<bool> popular_experts(const Routing& routing);

}  // namespace stepcast
