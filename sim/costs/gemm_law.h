// GEMM time from tiles and waves: a kernel with 110 thread blocks on 108 SMs takes a second wave.
#pragma once

#include "model/cluster.h"
#include "model/graph/op.h"

namespace stepcast {

// How a GEMM runs. `alone`: a benchmark repeats it a few times, short kernels at full clock.
// `sustained`: repeated for a second, at the clock that the power limit leaves (clock.h). `step`:
// between the other kernels of a step, at kernel.training_gemm times that rate.
enum class GemmSetting : std::uint8_t { alone, sustained, step };

// t = launch + min over tiles T (either way round) and k-splits s of
//              corner(arithmetic, traffic) [+ gemm_split if s > 1]
//   arithmetic = waves * 2 |T| (k / s + k0) / (peak per SM * efficiency * factor(T) * tile_rate(T))
//   waves      = x + (ceil(x) - x) wave_loss with x = tiles * s / SMs, at least 1
//   traffic    = (operands + split_traffic * fp32 partial results)
//                / (memory bandwidth * traffic_efficiency)
//   corner(a, b) = (a^(1/c) + b^(1/c))^c with c = gemm_corner; the longer of the two at c = 0
// Tiles are those with rates (gemm_tile_*; factor 0 leaves a tile out). With gemm_tile_reuse they
// are powers of two, or 128 by any multiple of 16 up to 256 (gemm_shared_operands). With
// gemm_even_tiles there is one tile (gemm_tiles.h), as fast as the best, and waves are whole:
// oneDNN does not search by waves. Arithmetic takes 1 + gemm_reload (1 - gemm_reload_cache /
// geometric mean of both operands) times as long if that is more. Operands whose rows are multiples
// of gpu.memory_interleave long, and results beyond the L2's size, cross the memory at gemm_camping
// of its rate. Benchmarks read the same activations [m, k] again and again, so 0.3 of what the L2
// holds of them and of the results is free; not in a step. Narrow operands have their own
// efficiency, k0, tile_reuse and wave_loss, and are not split. Kernels with scaled blocks and
// operands from shared memory (DeepGEMM) write a tile before they begin the next, so results
// count 1.8 times. Where a calibration on the machine left shapes (kernel.gemm_near), the law is
// corrected near them. On Hopper their tiles have 128 rows and at most 128 columns, and k counts 1
// + 1.6 / blocks of rows times if the last block has fewer than 96 rows. The form comes from fits
// to A100 tables. The other published tables needed wave_loss (work cut along k fills the last
// wave) and the corner. In files fitted to the atlas, one reuse constant replaces seven tile
// factors (notes/kernel-laws.md).
Seconds gemm_law_time(const Gemm& op, const Cluster& cluster,
                      GemmSetting setting = GemmSetting::alone, bool scaled_blocks = false);

// An m x n tile loads (1/m + 1/n) operand elements for each multiplication: 1 / (1 + reuse times
// the excess over a 256x128 tile's).
double tile_rate(long m, long n, double reuse);

// The number of waves for so many tiles per SM, and the longer of arithmetic and traffic with its
// corner, both as above.
double waves_of(double blocks_per_sm, double loss);
Seconds corner_of(Seconds a, Seconds b, double corner);

// One kernel over groups: the tiles of all groups fill the waves together, at kernel.grouped_gemm
// times the rate. If each group has its own kernel (op.kernels), the tiles fill the waves on
// several streams all the same, but each kernel adds its launch and its call. Where such a kernel
// is slower than ungrouped ones (kernel.grouped_gemm below 1), never longer than one product after
// another for each group; nor, with kernel.grouped_spread, than these on several streams, whose
// launches overlap and of which one fills a share of the SMs that another leaves idle, though the
// host starts them one by one:
//   launch + max(sum of products + spread * (all tiles in one kernel - sum), groups * host.call)
// `execute` runs the fastest of the three (notes/gpu.md).
Seconds grouped_gemm_law_time(const GroupedGemm& op, const Cluster& cluster,
                              GemmSetting setting = GemmSetting::alone);

}  // namespace stepcast
