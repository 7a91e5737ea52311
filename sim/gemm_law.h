// GEMM time from tiles and waves: knows sizes, so a kernel with 110 thread blocks on 108 SMs takes a second wave.
#pragma once

#include <span>

#include "model/cluster.h"
#include "model/op.h"

namespace stepcast {

// t = launch + min over tiles T in {256x128, 128x128, 128x64, 64x64} and k-splits s in {1, 2, 4, 8} of
//   waves * 2 |T| (k / s + k0) / (peak per SM * efficiency * factor(T)),  waves = ceil(tiles * s / SMs),
// and not below operand bytes / (memory bandwidth * memory efficiency). Ignores alignment and L2 reuse.
Seconds gemm_law_time(const Gemm& op, const Cluster& cluster);

// One kernel over groups: the tiles of all groups fill the waves together.
Seconds grouped_gemm_law_time(const GroupedGemm& op, const Cluster& cluster);

}  // namespace stepcast
