// GEMM time from tiles and waves: knows sizes, so a kernel with 110 thread blocks on 108 SMs takes a second wave.
#pragma once

#include "model/cluster.h"
#include "model/graph/op.h"

namespace stepcast {

// Where a GEMM runs. `alone`: as benchmarks repeat it a few times, short kernels at full clock. `sustained`: repeated for
// a second, at the clock that the power limit leaves (sim/costs/clock.h). `step`: between the other kernels of a step, at
// kernel.training_gemm times that.
enum class GemmSetting : std::uint8_t { alone, sustained, step };

// t = launch + min over tiles T (either way round) and k-splits s of corner(arithmetic, traffic) [+ gemm_split if s > 1]
//   arithmetic = waves * 2 |T| (k / s + k0) / (peak per SM * efficiency * factor(T) * tile_rate(T))
//   waves      = x + (ceil(x) - x) wave_loss with x = tiles * s / SMs, at least 1
//   traffic    = (operands + split_traffic * fp32 partial results) / (memory bandwidth * traffic_efficiency)
// Tiles: those of rates (gemm_tile_*); with gemm_tile_reuse powers of two, or 128 by any multiple of 16 up to 256 (gemm_shared_operands).
// With gemm_even_tiles one tile alone (gemm_tiles.h), as fast as the best, and whole waves: oneDNN does not search by waves.
// Arithmetic takes 1 + gemm_reload (1 - gemm_reload_cache / geometric mean of both operands) times as long where that is more than 1.
// Operands whose rows are multiples of gpu.memory_interleave long, and results beyond what the L2 takes, cross the memory at gemm_camping of its rate.
// Operands: benchmarks read the same activations [m, k] again and again, so that 0.3 of what the L2 holds of them and of the results does not
// count. In a step all do.
// corner(a, b) = (a^(1/c) + b^(1/c))^c with c = gemm_corner; the longer of the two at c = 0. Tiles of factor 0 are left
// out. Narrow operands have an efficiency, k0, tile_reuse and wave_loss of their own and are not split. Kernels with scaled blocks
// whose operands come from shared memory (DeepGEMM) write a tile before they begin the next: their results count 1.8 times. On Hopper their
// tiles have 128 rows and at most 128 columns, and k counts 1 + 1.6 / blocks of rows times where the last block holds fewer than 96. The
// form comes from fits to A100 tables; wave_loss (work cut along k to fill the last wave) and the corner were needed by the other published
// tables, one reuse constant replaces seven tile factors in files that were fitted to the atlas (docs/calibration.md).
Seconds gemm_law_time(const Gemm& op, const Cluster& cluster, GemmSetting setting = GemmSetting::alone,
                      bool scaled_blocks = false);

// An m x n tile loads (1/m + 1/n) operand elements a multiplication: 1 / (1 + reuse times what that is above a 256x128 tile's).
double tile_rate(long m, long n, double reuse);

// Waves of tiles, as so many for each SM, and the longer of arithmetic and traffic with its corner: both as above.
double waves_of(double blocks_per_sm, double loss);
Seconds corner_of(Seconds a, Seconds b, double corner);

// One kernel over groups: the tiles of all groups fill the waves together, at kernel.grouped_gemm times the rate. Group by group
// (op.kernels): on several streams the tiles fill the waves all the same, but each kernel takes its launch and its call.
Seconds grouped_gemm_law_time(const GroupedGemm& op, const Cluster& cluster, GemmSetting setting = GemmSetting::alone);

}  // namespace stepcast
