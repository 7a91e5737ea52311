// Flash attention: one kernel that keeps the scores on chip.
#pragma once

#include "model/cluster.h"
#include "model/graph/op.h"
#include "sim/costs/gemm_law.h"

namespace stepcast {

// `kv_heads`: 0 = as many as heads.
struct AttentionShape {
    Attention op;
    long kv_heads = 0;
    friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

// With kernel.tile queries in a thread block, block j of a causal sequence sees v_j = min((j + 1) tile, window + tile + 128)
// keys (all of them without a mask) and takes tile (v_j + fill) pairs. With an SM for every block all is done with the longest. Of more
// blocks the SMs share the work, and end apart by `corner` of the longest (without a mask all are alike and run in waves:
// longest * (x + (ceil(x) - x) min(1, corner)) with x = blocks / SMs, at least one longest):
//   t = launch + max(longest block, sum over blocks / SMs + corner * longest block)
//                * 2 (d_qk + d_v + 2 width) / (1 + width / 128) / (peak per SM * efficiency * odd)
//       + casts * (traffic * (queries, results) + cache * (keys, values)) / (memory bandwidth * 0.85 * warm) + tokens * token * held
// d is rounded up to a multiple of 32. `width`: what a
// pair's exponential costs in addition to its products, so that a head of 64 runs at about half the rate of one of 256; `efficiency`
// is that of heads of 128. In fp8 the products, d_qk + d_v, run at fp8_efficiency of its own peak instead; exponentials are the same
// work as in 16 bits, and operands are cast by launches of their own, fp8_launch. `odd`: 1 but where the kernel has no tiles for a head's width (no multiple of 16; in fp8 other than
// 128). `cache`, `token`: keys and values written to a cache outside the kernel. `warm`: from 2, where the L2 holds
// all operands (well below kernel.cast.cache), to 1. `casts`: fp8_traffic in fp8, else 1. `held`: min(1, keys of a token / token_block),
// 1 at 0: a thread block writes each token, and as many run at once as their threads leave room (vLLM's has a thread for each element of
// a token's keys, at most 512). With tile = 0 there are no blocks: efficiency / (1 + ramp / queries). Never below the operands' bytes. Of an op with a window_share, the mean of both.
//
// The backward makes 5 products for the forward's 2 (scores again, three gradients: FlashAttention-2, Dao 2023, section 3.1), at
// kernel.attention_backward times the rate. Kernels of another generation divide the products' part, 2 (d_qk + d_v), by
// kernel.attention_v2 or .attention_triton; exponentials run at the same rate in all. So FlashAttention-2 loses less at a head
// of 64 than at one of 128 (H100: 300 of some 440 TFLOP/s against 370 of 640; FlashAttention-3, arXiv 2407.08608, figure 5).
// Source: eight devices' atlas, docs/calibration.md.
Seconds attention_law_time(const AttentionShape& shape, const AttentionKernel& kernel, const Cluster& cluster,
                           GemmSetting setting);

// A head of a width that a kernel may have no tiles for: tensor cores multiply 16 elements of 16 bits at once, and kernels in fp8 are
// made for heads of 128.
bool odd_width(const Attention& op);

}  // namespace stepcast
