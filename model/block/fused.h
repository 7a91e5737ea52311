// Kernels as training libraries fuse them. Element-wise passes are counted tensor by tensor (listed
// by Korthikanti et al., arXiv 2205.05198, section 4). A = outer tokens x hidden elements. A
// dropout mask has one byte per element.
#pragma once

#include "model/base/numbers.h"
#include "model/block/block_pass.h"
#include "model/block/composed.h"
#include "model/block/expert_rows.h"
#include "model/block/gelu_steps.h"
#include "model/block/split_linear.h"

namespace stepcast {

struct Fused : BlockPass {
    const ExpertRows& experts;
    // Automatic casting keeps norms and residuals in fp32. Around experts of a framework that fuses
    // nothing, joins.cpp counts the casts.
    const Bytes wide = casts() ? size_of(Dtype::fp32) : s.element();

    // Under automatic casting the weight and its gradient are cast once a micro-batch (frozen ones
    // have no gradient), an input again for each further product that reads it.
    void operator()(const Linear& op) const {
        if (casts()) {
            cast(real(op.in.rank) * real(op.out.rank), w.adapter_rank == 0);
            if (op.after_norm && op.split == Split::none) cast(real(op.tokens * op.in.rank));
        }
        if (op.logits && r.loss.logits == LogitsKept::chunks) return;
        const SplitLinear linear{*this, op};
        ahead != nullptr ? linear.forward() : linear.backward();
    }

    // Each further gradient is read together with the sum so far, and the new sum is written.
    void operator()(const Fork& op) const {
        const double further = op.readers - 1;
        const Bytes x = op.elements * wide;
        backward(op.sum, MemoryPass{2.0 * further * x, further * x}, static_cast<float>(further));
    }

    // Forward reads x and writes y; backward reads x and dy and writes dx.
    void operator()(const Normalize& op) const {
        const double elements = real(op.rows * op.width);
        const auto kernels = static_cast<float>(op.kernels);
        if (w.norm == Norm::rmsnorm && composes(*this, Composed::norms)) {
            forward(op.name, moved(norm_ahead, tensor(elements)), norm_ahead.kernels * kernels);
            return backward(backward_name(op.name), moved(norm_back, tensor(elements)),
                            norm_back.kernels * kernels);
        }
        const Bytes x = elements * wide;
        forward(op.name, MemoryPass{x, x}, kernels);
        backward(backward_name(op.name), MemoryPass{2.0 * x, x}, 2);
        if (composes(*this, Composed::column_sums) && w.adapter_rank == 0)
            column_sum("norm_weight_gradient", 2.0 * x);
    }

    // Backward reads the inputs and the gradient, and writes the gradients of the inputs; the bias
    // gradient sums those. Fused expert products include this pass.
    void operator()(const Activate& op) const {
        const bool slots = op.rows == Activate::Rows::expert_slots;
        if (slots && r.experts.products == ExpertProducts::fused) return;
        const Bytes inner = tensor(real((slots ? experts.most() : s.tokens) * op.width.rank));
        const Bytes inputs = real(op.inputs) * inner;
        if (w.activation == Activation::gelu_steps && composes(*this, Composed::activation)) {
            const GeluSteps gelu{*this, s.element(), wide};
            ahead != nullptr ? gelu.ahead(inner / s.element()) : gelu.behind(inner / s.element());
        } else if (slots && op.inputs == 2 && composes(*this, Composed::experts)) {
            forward("activation", moved(gate_ahead, inner), gate_ahead.kernels);
            backward("activation_backward", moved(gate_back, inner), gate_back.kernels);
        } else {
            forward("activation", MemoryPass{inputs, inner});
            backward("activation_backward", MemoryPass{inputs + inner, inputs});
        }
        if (op.bias) column_sum("bias_gradient", inputs);
    }

    // Adds bias and residual, with dropout between: reads both, writes the sum and the mask. In the
    // backward, the dropout pass reads gradient and mask and writes the result, which is summed
    // over tokens for the bias gradient.
    void operator()(const Residual& op) const {
        const Bytes a = tensor(outer()), mask = mask_of(outer()), stream = outer() * wide;
        forward("residual", MemoryPass{a + stream, stream + mask});
        if (drops()) backward("dropout_backward", MemoryPass{a + mask, a});
        if (op.bias) column_sum("bias_gradient", a);
    }

    void operator()(const Cast& op) const {
        if (casts()) cast(op.elements);
    }

    // These exist only operation by operation; check_experiment() refuses them in this style.
    void operator()(const OneOf<WithMemory, AttendRelative, SpanLoss> auto&) const {}
};

// Passes that are equal in every style.
struct SharedPasses : BlockPass {
    void operator()(const Elementwise& op) const {
        forward(op.name, MemoryPass{tensor(op.read), tensor(op.written)});
        backward(backward_name(op.name), MemoryPass{tensor(op.read + op.written), tensor(op.read)},
                 2);
    }

    void operator()(const Scan& op) const {
        const Bytes inner = s.inner(op.inner().rank), around = s.inner(op.around().rank);
        scan_products(op);
        forward("scan", MemoryPass{2.0 * around, 2.0 * inner});
        if (back != nullptr) scan_products(op);
        backward("scan_backward", MemoryPass{4.0 * around + 2.0 * inner, 2.0 * around}, 4);
    }

private:
    // Runs in chunks of Q tokens as batched products: C B^T, its product with x inside a chunk, the
    // states from B and x, and their contribution to y from C. The backward has two products for
    // each.
    void scan_products(const Scan& scan) const {
        constexpr long chunk = 128;  // Q
        const long chunks = (s.tokens + chunk - 1) / chunk, heads = chunks * scan.heads.rank;
        const Dtype dtype = s.storage;
        planner().compute("scan_scores",
                          Gemm{chunk, chunk, scan.state, chunks * scan.groups.rank, dtype});
        planner().compute("scan_inside", Gemm{chunk, scan.width, chunk, heads, dtype});
        planner().compute("scan_states", Gemm{scan.width, scan.state, chunk, heads, dtype});
        planner().compute("scan_between", Gemm{chunk, scan.width, scan.state, heads, dtype});
    }
};

}  // namespace stepcast
