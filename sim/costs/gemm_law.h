// GEMM time from tiles and waves: knows sizes, so a kernel with 110 thread blocks on 108 SMs takes a second wave.
#pragma once

#include <span>

#include "model/cluster.h"
#include "model/op.h"

namespace stepcast {

// Where a GEMM runs. `alone`: as benchmarks repeat it, short kernels at the boosted clock. `step`: between the other
// kernels of a step, arithmetic at kernel.training_gemm times the sustained rate.
enum class GemmSetting : std::uint8_t { alone, step };

// t = launch + min over tiles T (either way round) and k-splits s of corner(arithmetic, traffic) [+ gemm_split if s > 1]
//   arithmetic = waves * 2 |T| (k / s + k0) / (peak per SM * efficiency * factor(T))
//   waves      = x + (ceil(x) - x) wave_loss with x = tiles * s / SMs, at least 1
//   traffic    = (operands + split_traffic * fp32 partial results) / (memory bandwidth * traffic_efficiency)
// corner(a, b) = (a^(1/c) + b^(1/c))^c with c = gemm_corner; the longer of the two at c = 0. Tiles of factor 0 are left
// out. Ignores L2 reuse. The form comes from fits to A100 tables; wave_loss (work cut along k to fill the last wave), the
// corner and the boost were needed by the other published tables (docs/calibration.md).
Seconds gemm_law_time(const Gemm& op, const Cluster& cluster, GemmSetting setting = GemmSetting::alone);

// One kernel over groups: the tiles of all groups fill the waves together, at kernel.grouped_gemm times the rate.
Seconds grouped_gemm_law_time(const GroupedGemm& op, const Cluster& cluster, GemmSetting setting = GemmSetting::alone);

}  // namespace stepcast
