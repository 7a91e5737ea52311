#include "model/block/fused.h"

#include "model/block/linear.h"

namespace stepcast {

void Fused::forward(Planner& planner, const Linear& op) const { plan_split_linear(planner, c_, op); }
void Fused::backward(BackwardPlanners b, const Linear& op) const { plan_split_linear_backward(b, c_, op); }

// Each further gradient is read with the sum so far, which is written.
void Fused::backward(BackwardPlanners b, const Fork& op) const {
    const double further = op.readers - 1;
    const Bytes x = tensor(op.elements);
    b.inputs.compute(op.sum, MemoryPass{2.0 * further * x, further * x}, static_cast<float>(further));
}

// Reads x, writes y; backward: reads x and dy, writes dx.
void Fused::forward(Planner& planner, const Normalize& op) const {
    const Bytes x = tensor(static_cast<double>(op.rows * op.width));
    planner.compute(op.name, MemoryPass{x, x}, static_cast<float>(op.kernels));
}
void Fused::backward(BackwardPlanners b, const Normalize& op) const {
    const Bytes x = tensor(static_cast<double>(op.rows * op.width));
    b.inputs.compute(backward_name(op.name), MemoryPass{2.0 * x, x}, 2);
}

Bytes Fused::inner(const Activate& op) const {
    return op.rows == Activate::Rows::tokens ? c_.shape.inner(op.width.rank) : rows(op.width.rank);
}

bool Fused::in_products(const Activate& op) const {
    return op.rows == Activate::Rows::expert_slots &&
           c_.experiment.parallelism.expert_products == ExpertProducts::fused;
}

// Backward: reads what it read and the gradient, writes the gradients of what it read; the bias sums those.
void Fused::forward(Planner& planner, const Activate& op) const {
    if (in_products(op)) return;
    planner.compute("activation", MemoryPass{static_cast<double>(op.inputs) * inner(op), inner(op)});
}
void Fused::backward(BackwardPlanners b, const Activate& op) const {
    if (in_products(op)) return;
    const Bytes inputs = static_cast<double>(op.inputs) * inner(op);
    b.inputs.compute("activation_backward", MemoryPass{inputs + inner(op), inputs});
    if (op.bias) b.inputs.compute("bias_gradient", MemoryPass{inputs, Bytes(0)});
}

void Fused::forward(Planner& planner, const Elementwise& op) const {
    planner.compute(op.name, MemoryPass{tensor(op.read), tensor(op.written)});
}
void Fused::backward(BackwardPlanners b, const Elementwise& op) const {
    b.inputs.compute(backward_name(op.name), MemoryPass{tensor(op.read + op.written), tensor(op.read)}, 2);
}

// Bias and residual added, with dropout between: reads both, writes the sum and the mask. The gradient passes the dropout
// (reads gradient and mask, writes) and is summed over tokens for the bias.
void Fused::forward(Planner& planner, const Residual&) const {
    planner.compute("residual", MemoryPass{2.0 * tensor(outer()), tensor(outer()) + mask(outer())});
}
void Fused::backward(BackwardPlanners b, const Residual& op) const {
    const Bytes a = tensor(outer());
    if (drops()) b.inputs.compute("dropout_backward", MemoryPass{a + mask(outer()), a});
    if (op.bias) b.inputs.compute("bias_gradient", MemoryPass{a, Bytes(0)});
}

// By chunks of Q tokens, as batched products: C B^T and that times x inside a chunk, states from B and x, their part in y
// from C. Backward: two products for each.
void Fused::scan_products(Planner& planner, const Scan& s) const {
    constexpr long chunk = 128;  // Q
    const long chunks = (c_.shape.tokens + chunk - 1) / chunk, heads = chunks * s.heads.rank;
    const Dtype dtype = c_.shape.storage;
    planner.compute("scan_scores", Gemm{chunk, chunk, s.state, chunks * s.groups.rank, dtype});
    planner.compute("scan_inside", Gemm{chunk, s.width, chunk, heads, dtype});
    planner.compute("scan_states", Gemm{s.width, s.state, chunk, heads, dtype});
    planner.compute("scan_between", Gemm{chunk, s.width, s.state, heads, dtype});
}
void Fused::forward(Planner& planner, const Scan& op) const {
    const Bytes inner = c_.shape.inner(op.inner().rank), around = c_.shape.inner(op.around().rank);
    scan_products(planner, op);
    planner.compute("scan", MemoryPass{2.0 * around, 2.0 * inner});
}
void Fused::backward(BackwardPlanners b, const Scan& op) const {
    const Bytes inner = c_.shape.inner(op.inner().rank), around = c_.shape.inner(op.around().rank);
    scan_products(b.inputs, op);
    scan_products(b.inputs, op);
    b.inputs.compute("scan_backward", MemoryPass{4.0 * around + 2.0 * inner, 2.0 * around}, 4);
}

}  // namespace stepcast
