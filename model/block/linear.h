// The products of one linear layer of a rank: y[tokens, out] = x[tokens, in] W[in, out]; dx = dy
// W^T; dW[out, in] = dy^T x.
#pragma once

#include "model/base/numbers.h"
#include "model/block/operators.h"
#include "model/transformer/layer.h"

namespace stepcast {

inline Gemm product_of(const Linear& l, long m, long n, long k) {
    return {.m = m, .n = n, .k = k, .dtype = l.dtype, .alignment = alignment_of(l)};
}

// Casts an operand of a narrow product: reads 16 bits, writes it twice, by rows and by columns.
// Wider types need no cast.
inline void plan_cast(Planner& planner, long rows, long width, Dtype dtype) {
    if (!is_narrow(dtype)) return;
    const auto elements = real(rows * width);
    planner.compute("cast", MemoryPass{elements * size_of(between_products(dtype)),
                                       2 * elements * size_of(dtype)});
}

// Frozen weights of few bits become 16-bit ones before every product.
inline void plan_unpack(Planner& planner, const Linear& l) {
    if (l.packed == 0) return;
    const double elements = number(l.out.rank * l.in.rank);
    planner.compute("dequantize", MemoryPass{elements * Bytes(l.packed),
                                             elements * size_of(between_products(l.dtype))});
}

inline void plan_linear(Planner& planner, const Linear& l) {
    plan_unpack(planner, l);
    if (!l.after_norm) plan_cast(planner, l.tokens, l.in.rank, l.dtype);
    planner.compute(l.name, product_of(l, l.tokens, l.out.rank, l.in.rank));
}

inline void plan_input_gradient(Planner& planner, const Linear& l) {
    plan_unpack(planner, l);
    plan_cast(planner, l.tokens, l.out.rank, l.dtype);
    planner.compute(l.name, product_of(l, l.tokens, l.in.rank, l.out.rank));
}

// Whether a pass adds each weight gradient to that of earlier micro-batches. Under zero 2 and 3
// gradients are reduced in every micro-batch, so that each rank adds only its shard, one of so
// many; pipelines reduce them once.
inline bool accumulates(const Experiment& e) {
    return !e.runtime.gradients.fused_accumulation && micro_batches(e.parallelism) != 1;
}
inline int accumulated_shards(const Parallelism& p) {
    return p.zero < 2 || p.pp > 1 ? 1 : p.shard > 0 ? p.shard : ranks_of_weights(p);
}

inline void plan_accumulation(Planner& planner, const Linear& l, const Experiment& e) {
    if (!accumulates(e)) return;
    const double added = number(l.out.rank * l.in.rank) / accumulated_shards(e.parallelism);
    const Bytes made = size_of(casts_weights(e) ? Dtype::fp32 : between_products(l.dtype)),
                kept = size_of(gradient_type(e));
    planner.compute("accumulate_gradient",
                    MemoryPass{added * (made + kept), added * kept, MemoryPass::Access::optimizer});
}

// The GEMM, and such a pass. Frozen weights have neither.
inline void plan_weight_gradient(Planner& planner, const Linear& l, const Experiment& e) {
    if (e.workload.adapter_rank > 0) return;
    Gemm gemm = product_of(l, l.out.rank, l.in.rank, l.tokens);
    gemm.accumulate = e.runtime.gradients.fused_accumulation && gradient_type(e) == Dtype::fp32;
    planner.compute(l.name, gemm);
    plan_accumulation(planner, l, e);
}

}  // namespace stepcast
