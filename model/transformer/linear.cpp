// One linear layer: y[tokens, out] = x[tokens, in] W[in, out]; dx = dy W^T; dW[out, in] = dy^T x.
#include "model/transformer/layer.h"

namespace stepcast {

void plan_linear(Planner& planner, const Linear& l) {
    planner.compute(l.name, Gemm{l.tokens, l.out, l.in, 1, l.dtype});
}

void plan_input_gradient(Planner& planner, const Linear& l) {
    planner.compute(l.name, Gemm{l.tokens, l.in, l.out, 1, l.dtype});
}

void plan_weight_gradient(Planner& planner, const Linear& l, const Parallelism& p) {
    const bool fused = p.fused_accumulation && p.gradient_dtype == Dtype::fp32;
    planner.compute(l.name, Gemm{.m = l.out, .n = l.in, .k = l.tokens, .dtype = l.dtype, .accumulate = fused});
    if (p.fused_accumulation || p.zero == 3 || micro_batches(p) == 1) return;
    const double weights = static_cast<double>(l.out) * static_cast<double>(l.in);
    const Bytes made = size_of(l.dtype == Dtype::fp8 ? Dtype::bf16 : l.dtype), kept = size_of(p.gradient_dtype);
    planner.compute("accumulate_gradient", MemoryPass{weights * (made + kept), weights * kept});
}

}  // namespace stepcast
