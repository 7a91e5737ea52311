#include "model/block/linear.h"

namespace stepcast {
namespace {

Gemm product(const Linear& l, long m, long n, long k) {
    return {.m = m, .n = n, .k = k, .dtype = l.dtype, .unaligned = l.in.rank % 8 != 0 || l.out.rank % 8 != 0};
}

double elements(long rows, Width width) { return static_cast<double>(rows * width.rank); }

}  // namespace

void plan_cast(Planner& planner, double elements, Dtype dtype) {
    if (!is_narrow(dtype)) return;
    planner.compute("cast", MemoryPass{elements * size_of(between_products(dtype)), 2 * elements * size_of(dtype)});
}

void plan_linear(Planner& planner, const Linear& l) {
    if (!l.after_norm) plan_cast(planner, elements(l.tokens, l.in), l.dtype);
    planner.compute(l.name, product(l, l.tokens, l.out.rank, l.in.rank));
}

void plan_input_gradient(Planner& planner, const Linear& l) {
    plan_cast(planner, elements(l.tokens, l.out), l.dtype);
    planner.compute(l.name, product(l, l.tokens, l.in.rank, l.out.rank));
}

void plan_weight_gradient(Planner& planner, const Linear& l, const Experiment& e) {
    if (e.workload.adapter_rank > 0) return;
    const Parallelism& p = e.parallelism;
    Gemm gemm = product(l, l.out.rank, l.in.rank, l.tokens);
    gemm.accumulate = p.fused_accumulation && p.gradient_dtype == Dtype::fp32;
    planner.compute(l.name, gemm);
    if (p.fused_accumulation || p.zero == 3 || micro_batches(p) == 1) return;
    const double weights = elements(l.out.rank, l.in);
    const Bytes made = size_of(between_products(l.dtype)), kept = size_of(p.gradient_dtype);
    planner.compute("accumulate_gradient", MemoryPass{weights * (made + kept), weights * kept, MemoryPass::Access::optimizer});
}

}  // namespace stepcast
