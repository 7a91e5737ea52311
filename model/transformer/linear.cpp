// One linear layer: y[tokens, out] = x[tokens, in] W[in, out]; dx = dy W^T; dW[out, in] = dy^T x.
#include "model/transformer/layer.h"

namespace stepcast {
namespace {

Gemm product(const Linear& l, long m, long n, long k) {
    return {.m = m, .n = n, .k = k, .dtype = l.dtype, .unaligned = l.in % 8 != 0 || l.out % 8 != 0};
}

}  // namespace

void plan_linear(Planner& planner, const Linear& l) { planner.compute(l.name, product(l, l.tokens, l.out, l.in)); }

void plan_input_gradient(Planner& planner, const Linear& l) {
    planner.compute(l.name, product(l, l.tokens, l.in, l.out));
}

void plan_weight_gradient(Planner& planner, const Linear& l, const Parallelism& p) {
    const bool fused = p.fused_accumulation && p.gradient_dtype == Dtype::fp32;
    Gemm gemm = product(l, l.out, l.in, l.tokens);
    gemm.accumulate = fused;
    planner.compute(l.name, gemm);
    if (p.fused_accumulation || p.zero == 3 || micro_batches(p) == 1) return;
    const double weights = static_cast<double>(l.out) * static_cast<double>(l.in);
    const Bytes made = size_of(l.dtype == Dtype::fp8 ? Dtype::bf16 : l.dtype), kept = size_of(p.gradient_dtype);
    planner.compute("accumulate_gradient", MemoryPass{weights * (made + kept), weights * kept});
}

}  // namespace stepcast
