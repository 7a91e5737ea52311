// Kernels as training libraries fuse them. Element-wise passes are counted tensor by tensor (Korthikanti et al., arXiv
// 2205.05198, section 4 lists them); A = outer tokens x hidden elements; a mask of dropout is one byte an element.
#pragma once

#include "model/block/block_pass.h"
#include "model/block/expert_rows.h"
#include "model/block/split_linear.h"

namespace stepcast {

struct Fused {
    const BlockPass& b;
    const ExpertRows& experts;

    void operator()(const Linear& op) const {
        const SplitLinear linear{b, op};
        b.ahead != nullptr ? linear.forward() : linear.backward();
    }

    // Each further gradient is read with the sum so far, which is written.
    void operator()(const Fork& op) const {
        const double further = op.readers - 1;
        const Bytes x = b.tensor(op.elements);
        b.backward(op.sum, MemoryPass{2.0 * further * x, further * x}, static_cast<float>(further));
    }

    // Reads x, writes y; backward: reads x and dy, writes dx.
    void operator()(const Normalize& op) const {
        const Bytes x = b.tensor(static_cast<double>(op.rows * op.width));
        b.forward(op.name, MemoryPass{x, x}, static_cast<float>(op.kernels));
        b.backward(backward_name(op.name), MemoryPass{2.0 * x, x}, 2);
    }

    // Backward: reads what it read and the gradient, writes the gradients of what it read; the bias sums those. Fused products of
    // experts hold it.
    void operator()(const Activate& op) const {
        const bool slots = op.rows == Activate::Rows::expert_slots;
        if (slots && b.c.experiment.parallelism.expert_products == ExpertProducts::fused) return;
        const Bytes inner = b.tensor(static_cast<double>((slots ? experts.most() : b.c.shape.tokens) * op.width.rank));
        const Bytes inputs = static_cast<double>(op.inputs) * inner;
        b.forward("activation", MemoryPass{inputs, inner});
        b.backward("activation_backward", MemoryPass{inputs + inner, inputs});
        if (op.bias) b.backward("bias_gradient", MemoryPass{inputs, Bytes(0)});
    }

    // Bias and residual added, with dropout between: reads both, writes the sum and the mask. The gradient passes the dropout
    // (reads gradient and mask, writes) and is summed over tokens for the bias.
    void operator()(const Residual& op) const {
        const Bytes a = b.tensor(b.outer()), mask = b.mask(b.outer());
        b.forward("residual", MemoryPass{2.0 * a, a + mask});
        if (b.drops()) b.backward("dropout_backward", MemoryPass{a + mask, a});
        if (op.bias) b.backward("bias_gradient", MemoryPass{a, Bytes(0)});
    }

    // Known operation by operation only; check_experiment() lets none through. There is nothing to cast.
    void operator()(const OneOf<Cast, WithMemory, AttendRelative, SpanLoss> auto&) const {}
};

// The same in every style.
struct SharedPasses {
    const BlockPass& b;

    void operator()(const Elementwise& op) const {
        b.forward(op.name, MemoryPass{b.tensor(op.read), b.tensor(op.written)});
        b.backward(backward_name(op.name), MemoryPass{b.tensor(op.read + op.written), b.tensor(op.read)}, 2);
    }

    void operator()(const Scan& op) const {
        const Bytes inner = b.c.shape.inner(op.inner().rank), around = b.c.shape.inner(op.around().rank);
        scan_products(op);
        b.forward("scan", MemoryPass{2.0 * around, 2.0 * inner});
        if (b.back != nullptr) scan_products(op);
        b.backward("scan_backward", MemoryPass{4.0 * around + 2.0 * inner, 2.0 * around}, 4);
    }

private:
    // By chunks of Q tokens, as batched products: C B^T and that times x inside a chunk, states from B and x, their part in y
    // from C. Backward: two products for each.
    void scan_products(const Scan& s) const {
        constexpr long chunk = 128;  // Q
        const long chunks = (b.c.shape.tokens + chunk - 1) / chunk, heads = chunks * s.heads.rank;
        const Dtype dtype = b.c.shape.storage;
        b.planner().compute("scan_scores", Gemm{chunk, chunk, s.state, chunks * s.groups.rank, dtype});
        b.planner().compute("scan_inside", Gemm{chunk, s.width, chunk, heads, dtype});
        b.planner().compute("scan_states", Gemm{s.width, s.state, chunk, heads, dtype});
        b.planner().compute("scan_between", Gemm{chunk, s.width, s.state, heads, dtype});
    }
};

}  // namespace stepcast
