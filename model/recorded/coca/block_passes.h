// Attention forward: scale, scores, (mask), softmax, values, back to rows. The backward is that of
// automatic differentiation: each bias gradient is a sum over rows, and a norm's backward reads
// input and gradient twice, for the gradients of its input and of its weights. Passes in units of
// the 16-bit tensor (r reads, w writes):
//   scale: r1 w1
//   mask: added in place r1 w1
//   softmax: r1 w1; under autocast fp32 results (w2), cast for the next product (r2 w1)
//     backward: r2 w1; under autocast cast r1 w2, softmax r4 w1
//   packed projections: three contiguous copies r3 w3
//     backward: joined again r3 w3
//   rotary, for queries and for keys: x cos r1 w1, every second element negated r1 w.5, interleaved
//     with the others r1.5 w1, times sin r1 w1, sum r2 w1, class token put in front r1 w1
//     backward: two products, negation and interleaving again, sum, two gradients of slices (zeros,
//       copy) and their sum: r9.5 w8.5
//   values: copied for the product
//     backward: three gradients copied into row order
//   GELU: r1 w1
//     backward: r2 w1
//   gated: SiLU r1 w1, product r2 w1
//     backward: two products r2 w1, SiLU r2 w1
// Reading every second 16-bit element moves all bytes. Launch gaps are ignored.
#pragma once

#include <string>

#include "model/base/units.h"
#include "model/block/block_pass.h"
#include "model/recorded/coca/parts.h"

namespace stepcast {

BlockSizes sizes_of(const TowerBlock& block, const TowerContext& context);

// Each plans one pass over a block, or over what precedes or follows the blocks.
void plan_tower_block(const PassWriter& out, const TowerBlock& block, const TowerContext& context);

// A norm, of blocks and ends. Without its own kernel it is computed in fp32 under autocast: cast x
// to fp32, norm, cast the result to 16 bit.
void plan_tower_norm(const PassWriter& out, const std::string& name, Bytes x, bool fused,
                     const TowerContext& context);

}  // namespace stepcast
