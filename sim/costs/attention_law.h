// Flash attention: one kernel that keeps the scores on chip.
#pragma once

#include "model/cluster.h"
#include "model/graph/op.h"
#include "sim/costs/gemm_law.h"

namespace stepcast {

// `kv_heads`: 0 means as many as heads.
struct AttentionShape {
    Attention op;
    long kv_heads = 0;
    friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

// A thread block has kernel.tile queries. Block j of a causal sequence sees v_j = min((j + 1) tile,
// window + tile + 128) keys (all keys without a mask) and computes tile (v_j + fill) pairs. If
// every block has an SM, the longest block decides. Otherwise the SMs share the work and end apart
// by `corner` of the longest block. Without a mask all blocks are alike and run in waves: longest *
// (x + (ceil(x) - x) min(1, corner)) with x = blocks / SMs, at least one longest.
//   t = launch + max(longest block, sum over blocks / SMs + corner * longest block)
//                * 2 (d_qk + d_v + 2 width) / (1 + width / 128) / (peak per SM * efficiency * odd)
//       + casts * (traffic * (queries, results) + cache * (keys, values))
//         / (memory bandwidth * 0.85 * warm) + tokens * token * held
// d is rounded up to a multiple of 32. With tile = 0 there are no blocks, and the efficiency is
// divided by 1 + ramp / queries. The time is never below that of the operands' bytes. An op with a
// window_share takes the mean of both kinds of layers.
//   width         what a pair's exponential costs beside its products: a head of 64 runs at about
//                 half the rate of one of 256
//   efficiency    that of heads of 128. In fp8 the products, d_qk + d_v, run at fp8_efficiency of
//                 fp8's peak; exponentials cost as much as in 16 bits, and separate launches cast
//                 the operands, fp8_launch
//   odd           below 1 if the kernel has no tiles for a head's width (no multiple of 16; in fp8
//                 not 128)
//   cache, token  keys and values written to a cache outside the kernel
//   warm          2 if the L2 holds all operands (well below kernel.cast.cache), falling to 1
//   casts         fp8_traffic in fp8, else 1
//   held          min(1, keys of a token / token_block), or 1 if token_block is 0: a thread block
//                 writes each token, and as many run at once as their threads allow (vLLM's has a
//                 thread for each element of a token's keys, at most 512)
//
// The backward makes 5 products for the forward's 2 (scores again, three gradients:
// FlashAttention-2, Dao 2023, section 3.1), at kernel.attention_backward times the rate. Kernels of
// another generation divide the products' part, 2 (d_qk + d_v), by kernel.attention_v2 or
// .attention_triton, while exponentials run at the same rate in all. So FlashAttention-2 loses less
// at a head of 64 than at one of 128 (H100: 300 of some 440 TFLOP/s against 370 of 640;
// FlashAttention-3, arXiv 2407.08608, figure 5). Source: tables of eight devices,
// notes/kernel-laws.md.
Seconds attention_law_time(const AttentionShape& shape, const AttentionKernel& kernel,
                           const Cluster& cluster, GemmSetting setting);

// Whether a kernel may lack tiles for the head's width: tensor cores multiply 16 elements of 16
// bits at once, and fp8 kernels expect 128.
bool odd_width(const Attention& op);

}  // namespace stepcast
