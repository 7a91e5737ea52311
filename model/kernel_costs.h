// Costs of a device's kernels: shares of datasheet rates, launch times, and measured points. The
// laws are in sim/costs/.
#pragma once

#include <string>
#include <vector>

#include "model/base/dtype.h"
#include "model/base/units.h"
#include "model/input/keyed.h"

namespace stepcast {

// One measured point of a collective or a memory pass: payload and time.
struct CurvePoint {
    KEY(Bytes, bytes, {}, "payload", atleast::more_than_0);
    KEY(Seconds, time, {}, "measured", atleast::more_than_0);
    friend bool operator==(const CurvePoint&, const CurvePoint&) = default;
};

// Measured points, ascending in bytes. Empty: use the law. Between points: linear interpolation.
// Beyond the last: same slope.
using Curve = std::vector<CurvePoint>;

struct GemmPoint {
    KEY(long, m, 0, "rows", atleast::more_than_0);
    KEY(long, n, 0, "columns", atleast::more_than_0);
    KEY(long, k, 0, "inner dimension", atleast::more_than_0);
    KEY(Dtype, dtype, Dtype::fp32, "of the operands");
    KEY(Seconds, time, {}, "measured", atleast::more_than_0);
    friend bool operator==(const GemmPoint&, const GemmPoint&) = default;
};

// Matrix products with operands of fewer than 16 bits. With an efficiency of 0 they run at the
// constants of 16 bits. `cast_launch` and `cast_bytes` (per element) are the cost of casting a
// linear layer's input in a framework: sim/costs/cast_law.h.
struct NarrowGemm {
    KEY(double, efficiency, 0, "share of its peak; 0 = as 16 bits", 0, upto::share);
    KEY(double, k0, 300, "prologue and epilogue of the k loop, in elements of k", 0, 1e6);
    KEY(double, tile_reuse, 0,
        "loss of a smaller tile: 1 / (1 + reuse (1/m + 1/n - 3/256)) of the best's rate", 0, 1e4);
    KEY(double, wave_loss, 0.3, "share of the last wave's idle SMs that is lost", 0, 2);
    KEY(Seconds, cast_launch, {}, "fixed cost of the input's cast, on top of the GEMM", 0,
        upto::seconds);
    KEY(double, cast_bytes, 0, "bytes an element that the cast moves; 0 = as a tensor's", 0, 1000);
    KEY(Seconds, cast_row, {}, "time of an SM for a row of it, on top of its bytes", 0,
        upto::seconds);
    friend bool operator==(const NarrowGemm&, const NarrowGemm&) = default;
};

// One implementation of flash attention: sim/costs/attention_law.h. `name` tells which kernel of
// the tables it is, if steps run it.
struct AttentionKernel {
    KEY_NAMED(std::string, name, {}, "kernel", "name of this kernel in measured tables");
    KEY(Seconds, launch, {},
        "fixed cost of the call, with what it launches on top of the kernel itself; 0 = "
        "kernel.launch",
        0, upto::seconds);
    KEY(double, efficiency, 0.5, "share of the peak in the forward's GEMMs, without exponentials",
        atleast::share, upto::share);
    KEY(double, ramp, 600,
        "tokens of a sequence at which half of the rate is reached; where blocks are not counted",
        0, 1e6);
    KEY(double, width, 0, "width of a head whose GEMMs take as long as its exponentials", 0, 1e4);
    KEY(double, fill, 0, "fixed cost of a block of queries, in keys", 0, 1e6);
    KEY(double, corner, 0,
        "0: time is the longer of all blocks' work and the longest block; 1: their sum; without a "
        "mask: share of the last wave's idle SMs that is lost",
        0, 10);
    KEY(double, traffic, 0, "times that queries and results cross the memory outside the kernel", 0,
        100);
    KEY(double, cache, 0,
        "times that keys and values cross the memory outside the kernel, as where they are written "
        "to a cache",
        0, 100);
    KEY(Seconds, token, {},
        "time of each token on top of the kernel: blocks that write it to a cache", 0,
        upto::seconds);
    KEY(int, token_block, 0,
        "elements of a token's keys at which it costs all of `token`; 0 = whatever it has", 0,
        65536);
    KEY(double, odd, 1,
        "rate where the kernel has no tiles for the width of a head (no multiple of 16; in fp8 "
        "other than 128), relative to others",
        atleast::share, upto::share);
    KEY_NAMED(double, fp8_efficiency, 0.5, "fp8",
              "share of the fp8 peak in the GEMMs; exponentials take as long as in 16 bits",
              atleast::share, upto::share);
    KEY(Seconds, fp8_launch, {}, "launches of the casts to fp8", 0, upto::seconds);
    KEY(double, fp8_traffic, 1,
        "bytes that cross the memory outside the kernel in fp8, where operands are cast, relative "
        "to 16 bits",
        0, 100);
    KEY(int, tile, 0, "queries of a thread block; 0 = blocks are not counted against SMs", 0, 4096);
    KEY(bool, slides, true,
        "skips keys that lie before a sliding window; else it masks their scores");
    friend bool operator==(const AttentionKernel&, const AttentionKernel&) = default;
};

// One implementation of the forward of a whole expert layer: sim/costs/expert_layer_law.h.
struct ExpertKernel {
    KEY_NAMED(std::string, name, {}, "kernel", nullptr);  // "DTYPE IMPLEMENTATION"
    KEY(Seconds, launch, {}, "all launches of the layer", 0, upto::seconds);
    KEY(double, efficiency, 0.7, "share of the peak in the grouped GEMMs", 0, upto::share);
    KEY(double, k0, 300, "prologue and epilogue of the k loop, in elements of k", 0, 1e6);
    KEY(double, tile_reuse, 25,
        "loss of a smaller tile: 1 / (1 + reuse (1/m + 1/n - 3/256)) of the best's rate", 0, 1e4);
    // for weights and rows of the products
    KEY(double, traffic, 0.85, "share of the memory bandwidth", 0, upto::share);
    KEY(double, passes, 1, "factor on the bytes of permutation, activation and sum", 0, 1000);
    KEY(bool, tabled, false,
        "takes the tile that Triton's default table names: 64 x 64, or 16 x 64 for no more tokens "
        "than experts; else the fastest");
    KEY(bool, reloads, false,
        "takes tiles of 64 rows at most, each of which reads its expert's weights again where the "
        "L2 does not hold them");
    friend bool operator==(const ExpertKernel&, const ExpertKernel&) = default;
};

// Casts to fp8: sim/costs/cast_law.h.
struct CastCosts {
    KEY(Seconds, launch, Seconds(2e-6), "launch of a cast", 0, upto::seconds);
    KEY(double, efficiency, 0.85, "share of the memory bandwidth", atleast::share, upto::share);
    KEY(Bytes, cache, Bytes(4e7), "casts well below find their operands in the L2", 0, 1e12);
    KEY(double, cache_gain, 1, "rate of such casts relative to memory's", 0.01, 100);
    KEY(Seconds, row, Seconds(2e-7), "a row with a scale of its own, on one SM", 0, upto::seconds);
    KEY(double, tensor_efficiency, 0,
        "share of the memory bandwidth in casts with one scale for all elements; 0: as the others",
        0, upto::share);
    KEY(double, tensor_gain, 1, "their rate in the L2 relative to memory's", 0.01, 100);
    KEY(double, tensor_written, 0, "bytes added to each byte that they write, up to the L2's size",
        0, 100);
    friend bool operator==(const CastCosts&, const CastCosts&) = default;
};

// GEMMs: sim/costs/gemm_law.h. Fused kernels and passes: sim/costs/op_costs.cpp; a pass takes bytes
// / (efficiency * datasheet bandwidth) + launch. A tile rate of 0: the library never uses the tile.
// The defaults switch off all effects beyond the first tiles.
struct KernelCosts {
    KEY(Seconds, launch, Seconds(2.4e-6), "fixed device-side cost of a kernel", 0, upto::seconds);
    KEY(double, gemm_efficiency, 0.92, "share of the peak in a full wave of the best tile",
        atleast::share, upto::share);
    KEY(double, gemm_k0, 149,
        "prologue and epilogue of the k loop, in elements of k at the 16-bit rate: a time, so "
        "slower types lose fewer elements",
        0, 1e6);
    KEY(double, gemm_tile_256, 1.0, "rate of a 256x128 tile relative to the best", atleast::share,
        upto::share);
    KEY(double, gemm_tile_128, 0.91, "128x128 tile", atleast::share, upto::share);
    KEY(double, gemm_tile_64, 0.75, "128x64 tile", atleast::share, upto::share);
    KEY(double, gemm_tile_32, 0.30, "64x64 tile", atleast::share, upto::share);
    KEY(double, gemm_tile_wide, 0, "256x256 tile; 0 = never used", 0, upto::share);
    KEY(double, gemm_tile_192, 0, "192x128 tile; 0 = never used", 0, upto::share);
    KEY(double, gemm_tile_narrow, 0, "256x64 tile; 0 = never used", 0, upto::share);
    KEY(double, gemm_tile_reuse, 0,
        "in place of the rates of tiles: a smaller one's is 1 / (1 + reuse (1/m + 1/n - 3/256)) of "
        "the best's",
        0, 1e4);
    KEY(bool, gemm_shared_operands, false,
        "with gemm_tile_reuse: tensor cores take operands from shared memory (Hopper, B200), so "
        "tiles have any width; else those of registers (A100, RTX)");
    KEY(bool, gemm_even_tiles, false,
        "the library cuts results into tiles by their sizes only, as few and alike as 256x256 "
        "allows, and fills no last wave (oneDNN)");
    KEY(double, gemm_camping, 1,
        "share of the memory's rate where all rows of an operand begin at one channel, "
        "gpu.memory_interleave",
        0.01, 1);
    KEY(double, gemm_reload, 0,
        "share by which tiles take longer whose operands come from the memory again", 0, 10);
    KEY(Bytes, gemm_reload_cache, {},
        "operands of a GEMM come from the memory once up to this size, the geometric mean of both",
        0, 1e12);
    KEY(double, gemm_wave_loss, 1, "share of the last wave's idle SMs that is lost", 0, 2);
    KEY(double, gemm_traffic_efficiency, 0.85,
        "share of the memory bandwidth that operands of a GEMM reach", atleast::share, upto::share);
    KEY(double, gemm_corner, 0, "0: the longer of arithmetic and traffic; 1: their sum", 0, 1);
    KEY(Seconds, gemm_split, {}, "time added to a GEMM that is split along k", 0, upto::seconds);
    KEY(double, gemm_split_traffic, 0,
        "times that the fp32 partial result of a GEMM split along k crosses the memory", 0, 100);
    KEY(double, gemm_boost, 0, "clock above the sustained one in short kernels, as a share", 0, 10);
    KEY(Seconds, gemm_boost_time, Seconds(2e-4), "how long a kernel keeps that clock", 1e-9,
        upto::seconds);
    KEY(double, gemm_unaligned, 1, "rate of a GEMM whose rows are not aligned to 8 elements", 0.01,
        1);
    KEY(double, gemm_odd, 1,
        "further rate of a GEMM whose rows begin between multiples of 4 bytes, as odd lengths of "
        "16 bits do",
        0.01, 1);
    KEY(double, gemm_fp32, 1, "rate of an fp32 GEMM relative to the cost model", atleast::share,
        upto::share);
    KEY(double, gemm_nn, 1, "rate of an input gradient's GEMM (NN) relative to the forward's",
        atleast::share, upto::share);
    KEY(double, gemm_tn, 1, "rate of a weight gradient's GEMM (TN) relative to the forward's",
        atleast::share, upto::share);
    KEY(double, batched_gemm, 1,
        "rate of a batch of GEMMs in one kernel relative to one GEMM of as many tiles",
        atleast::share, upto::share);
    KEY(double, gemm_accumulate, 1, "rate of a GEMM that adds to fp32", atleast::share,
        upto::share);
    KEY(double, grouped_gemm, 1,
        "rate of a grouped GEMM, one kernel over all groups, relative to one GEMM", atleast::share,
        upto::share);
    KEY(double, grouped_spread, 0,
        "where each group has its own GEMM, share of the idle SMs that GEMMs of other groups on "
        "other streams fill; 0 = one stream",
        0, 1);
    KEY(NarrowGemm, fp8, {}, "fp8, one scale a tensor");
    KEY(NarrowGemm, fp8_blocks, {}, "fp8, scales of blocks");
    KEY(NarrowGemm, fp4, {}, "fp4, one scale a tensor");  // nvfp4 has its own kind
    // without a name; steps price its kernels one by one
    KEY(ExpertKernel, experts, {}, "an expert layer alone");
    KEY(CastCosts, cast, {}, "casts");
    KEY(double, memory_efficiency, 0.85,
        "share of the memory bandwidth in memory-bound (elementwise) kernels", atleast::share,
        upto::share);
    KEY(Seconds, fused_ramp, Seconds(0.39e-3), "fused expert kernel: start, before the first wave",
        0, upto::seconds);
    KEY(double, fused_efficiency, 0.52, "fused expert kernel: share of the peak in a wave",
        atleast::share, upto::share);
    // of a gather
    KEY(Seconds, fused_tail, Seconds(1.01e-3),
        "fused expert kernel: left after the last remote row", 0, upto::seconds);
    // of a scatter
    KEY(double, fused_scatter_exposed, 0.44,
        "fused expert kernel: share of remote writes not hidden by compute", 0, 1);
    KEY(double, wgrad_efficiency, 0,
        "share of the peak in weight gradients over block lists; 0 = by the GEMM cost model", 0,
        upto::share);
    KEY(double, transpose_efficiency, 0.25, "share of the memory bandwidth in weight transposes",
        atleast::share, upto::share);
    KEY(double, row_efficiency, 0.8, "share of the memory bandwidth in norms and softmax",
        atleast::share, upto::share);
    KEY(double, strided_efficiency, 0.5,
        "share of the memory bandwidth in permuted copies and sums over columns", atleast::share,
        upto::share);
    KEY(Bytes, cache, {},
        "memory-bound kernels well below this find their operands in the L2; 0 = none do", 0, 1e12);
    KEY(double, cache_gain, 1, "rate of such kernels relative to memory's", 0.01, 100);
    KEY(Seconds, event, {}, "time that a pair of events around one kernel adds; only for tables", 0,
        upto::seconds);
    KEY(Seconds, call_ahead, {},
        "least time of a kernel where a script launches ahead: its host's call; only for tables", 0,
        upto::seconds);
    // clocks, layouts
    KEY(double, training_gemm, 1,
        "rate of a GEMM inside a transformer step relative to the cost model", atleast::share,
        upto::share);
    // scaling, transposes
    KEY(double, training_fp8, 1,
        "rate of an fp8 or fp4 GEMM inside a transformer step, on top of training_gemm",
        atleast::share, upto::share);
    // the kernel that steps run
    KEY_NAMED(AttentionKernel, attention, {}, "attention_", "flash attention");
    KEY(double, attention_backward, 0.75,
        "flash attention: rate of the backward relative to the forward", atleast::share,
        upto::share);
    KEY(double, attention_v2, 1,
        "rate of FlashAttention-2's GEMMs relative to the device's best kernel's; its exponentials "
        "take equally long",
        atleast::share, upto::share);
    KEY(double, attention_triton, 0,
        "the same for the kernel that Triton compiled in 2022 and 2023; 0 = attention_v2", 0,
        upto::share);
    KEY(std::vector<AttentionKernel>, attention_kernels, {},
        "attention by the kernels that tables name");
    KEY(std::vector<ExpertKernel>, expert_kernels, {},
        "whole expert layers by the implementations that tables name");
    KEY(double, optimizer_efficiency, 0.8,
        "share of the memory bandwidth in the optimizer's kernels", atleast::share, upto::share);
    KEY(std::vector<GemmPoint>, gemm_table, {}, "measured shapes, used in place of the cost model");
    KEY(bool, gemm_table_by_weight, false,
        "the table holds rows of single weights (n, k); the cost model answers elsewhere");
    KEY(std::vector<GemmPoint>, gemm_near, {},
        "measured shapes near which the cost model is wrong by as much as at these");
    KEY(std::vector<GemmPoint>, gemm_near_accumulated, {}, "the same of GEMMs that add to fp32");
    KEY(Curve, memory_curve, {}, "measured memory-bound kernels, bytes read and written");
    [[nodiscard]] const NarrowGemm& of_narrow(Dtype dtype, bool scaled_blocks) const {
        return dtype == Dtype::fp4 ? fp4 : scaled_blocks ? fp8_blocks : fp8;
    }
    friend bool operator==(const KernelCosts&, const KernelCosts&) = default;
};

}  // namespace stepcast
