// One linear layer: y[tokens, out] = x[tokens, in] W[in, out]; dx = dy W^T; dW[out, in] = dy^T x.
#include "model/transformer/layer.h"

namespace stepcast {
namespace {

Gemm product(const Linear& l, long m, long n, long k) {
    return {.m = m, .n = n, .k = k, .dtype = l.dtype, .unaligned = l.in % 8 != 0 || l.out % 8 != 0};
}

// Adapters sit beside the attention's projections in and out (MLPerf's choice); their products stay in 16 bit.
bool is_adapted(const LayerContext& c, const Linear& l) {
    return c.experiment.workload.adapter_rank > 0 && (l.name == "qkv" || l.name == "attention_output");
}
Linear narrowing(const LayerContext& c, const Linear& l) {
    return {"adapter_in", l.tokens, c.experiment.workload.adapter_rank, l.in, between_products(l.dtype)};
}
Linear widening(const LayerContext& c, const Linear& l) {
    return {"adapter_out", l.tokens, l.out, c.experiment.workload.adapter_rank, between_products(l.dtype)};
}
Bytes tensor(const Linear& l, long width) {
    return static_cast<double>(l.tokens * width) * size_of(between_products(l.dtype));
}
// The norm before it writes its result in the narrow type at once (Transformer Engine).
bool follows_norm(const Linear& l) { return l.name == "qkv" || l.name == "ffn_up" || l.name == "shared_up"; }

void plan_trained(BackwardPlanners b, const Linear& l) {
    b.weights.compute(l.name, product(l, l.out, l.in, l.tokens));
    plan_input_gradient(b.inputs, l);
}

}  // namespace

void plan_cast(Planner& planner, double elements, Dtype dtype) {
    if (!is_narrow(dtype)) return;
    planner.compute("cast", MemoryPass{elements * size_of(between_products(dtype)), 2 * elements * size_of(dtype)});
}

void plan_linear(Planner& planner, const Linear& l) {
    if (!follows_norm(l)) plan_cast(planner, static_cast<double>(l.tokens * l.in), l.dtype);
    planner.compute(l.name, product(l, l.tokens, l.out, l.in));
}

void plan_input_gradient(Planner& planner, const Linear& l) {
    plan_cast(planner, static_cast<double>(l.tokens * l.out), l.dtype);
    planner.compute(l.name, product(l, l.tokens, l.in, l.out));
}

void plan_weight_gradient(Planner& planner, const Linear& l, const Experiment& e) {
    if (e.workload.adapter_rank > 0) return;
    const Parallelism& p = e.parallelism;
    const bool fused = p.fused_accumulation && p.gradient_dtype == Dtype::fp32;
    Gemm gemm = product(l, l.out, l.in, l.tokens);
    gemm.accumulate = fused;
    planner.compute(l.name, gemm);
    if (p.fused_accumulation || p.zero == 3 || micro_batches(p) == 1) return;
    const double weights = static_cast<double>(l.out) * static_cast<double>(l.in);
    const Bytes made = size_of(between_products(l.dtype)), kept = size_of(p.gradient_dtype);
    planner.compute("accumulate_gradient", MemoryPass{weights * (made + kept), weights * kept});
}

void plan_adapter(Planner& planner, const LayerContext& c, const Linear& l) {
    if (!is_adapted(c, l)) return;
    plan_linear(planner, narrowing(c, l));
    plan_linear(planner, widening(c, l));
    planner.compute("adapter_sum", MemoryPass{2.0 * tensor(l, l.out), tensor(l, l.out)});
}

void plan_adapter_backward(BackwardPlanners b, const LayerContext& c, const Linear& l) {
    if (!is_adapted(c, l)) return;
    plan_trained(b, widening(c, l));
    plan_trained(b, narrowing(c, l));
    b.inputs.compute("adapter_sum_backward", MemoryPass{2.0 * tensor(l, l.in), tensor(l, l.in)});
}

}  // namespace stepcast
