// Kernels of a framework that fuses nothing: one kernel per operation, with the bytes read and
// written per element. `matrix` is the element size of inputs and outputs of matrix products,
// `wide` that of norms, residuals and softmax, which automatic casting keeps in fp32. Counted from
// the operators that PyTorch's automatic differentiation calls (torch.cuda.amp lists which run in
// fp32). Without tensor parallelism. Batched products need queries, keys and values copied head by
// head.
//   Causal (GPT-2): the mask chooses between score and a constant; softmax reads narrow and writes
//     wide scores, which are cast back before dropout.
//   Not causal (BERT): the mask is added, which makes the scores wide until after dropout.
//
// Transformer-XL over L = memory + sequence keys (arXiv 1901.02860, section 3.3 and appendix B):
// memory and input are concatenated. The scores of contents (q + u) k and of positions (q + v) r
// are two batched products. A padded copy shifts the position scores row by row; then sum, scale,
// mask and softmax follow. The memory needs no gradient, but its rows pass through the projection's
// backward.
#pragma once

#include "model/block/adapters.h"
#include "model/block/gelu_steps.h"

namespace stepcast {

struct Unfused : ElementPass {
    const Bytes matrix = s.element(), wide = r.autocast ? size_of(Dtype::fp32) : s.element(),
                mask = mask_of(1);

    // Automatic casting casts the weight and its gradient once per step. The bias gradient is a sum
    // over tokens.
    void operator()(const Linear& op) const {
        const double weights = number(op.in.rank * op.out.rank);
        cast(weights, wide, matrix);
        plan_products(*this, op, c.experiment);
        Adapters(*this, op).plan();
        if (ahead != nullptr || op.constant_input) return;
        if (wide != matrix)
            back->weights.compute("cast", MemoryPass{weights * matrix, weights * wide});
        const double results = number(op.tokens * op.out.rank);
        if (op.bias) back->weights.compute("bias_gradient", MemoryPass{results * matrix, Bytes(0)});
    }

    void operator()(const Fork& op) const {
        const auto further = static_cast<float>(op.readers - 1);
        backward(op.sum, further * op.elements, 2.0 * wide, wide, further);
    }

    void operator()(const Cast& op) const {
        cast(op.elements, wide, matrix);
        cast_back(op.elements, matrix, wide);
    }

    // The backward has one kernel for dx and one for the gradients of scale and shift.
    void operator()(const Normalize& op) const {
        forward(op.name, number(op.rows * op.width), wide, wide);
        backward(backward_name(op.name), number(op.rows * op.width), 4.0 * wide, wide, 2);
    }

    void operator()(const Residual&) const {
        if (drops()) forward("dropout", outer(), matrix, matrix + mask);
        forward("residual", outer(), matrix + wide, wide);
        cast_back(outer(), wide, matrix);
        if (drops()) backward("dropout_backward", outer(), matrix + mask, matrix);
    }

    void operator()(const Activate& op) const {
        const double inner = number(s.tokens * op.width.rank);
        const bool steps = w.activation == Activation::gelu_steps;
        const GeluSteps gelu{*this, matrix, wide};
        steps ? gelu.ahead(inner) : forward("activation", inner, matrix, matrix);
        if (w.inner_dropout && drops()) {
            forward("dropout", inner, matrix, matrix + mask);
            backward("dropout_backward", inner, matrix + mask, matrix);
        }
        steps ? gelu.behind(inner) : backward("activation_backward", inner, 2.0 * matrix, matrix);
    }

    // Known in one kernel only; check_experiment() refuses it in this style.
    void operator()(const Index&) const {}

    // Two scores per token mark where an answer begins and ends; the loss runs over positions.
    void operator()(const SpanLoss&) const {
        forward("loss", number(2 * s.tokens), wide, wide, 12);
        backward("loss_backward", number(2 * s.tokens), 2.0 * wide, wide, 12);
    }

    void operator()(const HeadLayout& op) const {
        const double projected = number(s.tokens * ((op.heads + 2 * op.kv_heads) * s.qk_dim));
        forward("head_layout", projected, matrix, matrix, 3);
        backward("head_layout_backward", projected, 2.0 * matrix, 2.0 * matrix, 4);
    }

    void operator()(const Attend&) const {
        forward("scores", to_scores(s.qk_dim));
        weigh_values(w.causal, s.value_dim);
        backward("scores", to_queries(s.qk_dim));
        backward("scores", to_keys(s.qk_dim));
    }

    void operator()(const WithMemory&) const {
        forward("memory", key_elements(), wide, wide);
        backward("memory_backward", outer(), wide, wide);
    }

    void operator()(const AttendRelative&) const {
        const double all = scores();
        const long width = s.qk_dim;
        forward("position_bias", 2 * outer(), matrix, matrix, 2);
        forward("head_layout", 2 * key_elements(), matrix, matrix, 2);
        forward("scores", to_scores(width));
        forward("position_scores", to_scores(width));
        forward("shift", all, matrix, matrix);
        forward("sum", all, 2.0 * matrix, matrix);
        weigh_values(true, width);
        backward("shift_backward", all, 2.0 * matrix, 3.0 * matrix, 3);
        for (const char* name : {"scores", "position_scores"}) {
            backward(name, to_queries(width));
            backward(name, to_keys(width));
        }
        backward("position_bias_backward", outer(), 4.0 * matrix, matrix, 3);
        backward("head_layout_backward", 3 * key_elements(), 2.0 * matrix, 2.0 * matrix, 4);
    }

private:
    [[nodiscard]] long keys() const { return s.seq + w.memory; }
    [[nodiscard]] double key_elements() const { return number(s.batch * keys() * s.hidden); }
    [[nodiscard]] double scores() const {
        return number(s.batch * s.heads * s.seq_q) * number(keys());
    }
    // Batched products per head: scores from queries and keys, or queries or keys from scores.
    [[nodiscard]] Gemm to_scores(long width) const {
        return {s.seq_q, keys(), width, s.batch * s.heads, s.storage};
    }
    [[nodiscard]] Gemm to_queries(long width) const {
        return {s.seq_q, width, keys(), s.batch * s.heads, s.storage};
    }
    [[nodiscard]] Gemm to_keys(long width) const {
        return {keys(), width, s.seq_q, s.batch * s.heads, s.storage};
    }

    // Softmax of the scores, and their product with the values.
    void weigh_values(bool causal, long value_width) const {
        const double all = scores();
        const Bytes width = causal ? matrix : wide;
        forward("scale", all, matrix, matrix);
        forward("mask", all, matrix, width);
        forward("softmax", all, width, wide);
        if (causal) cast(all, wide, matrix);
        if (drops_scores()) forward("score_dropout", all, width, width + mask);
        if (!causal) cast(all, wide, matrix);
        forward("values", to_queries(value_width));
        forward("head_layout", outer(), matrix, matrix);

        backward("head_layout_backward", outer(), matrix, matrix);
        backward("values", to_scores(value_width));
        backward("values", to_keys(value_width));
        if (!causal) cast_back(all, matrix, wide);
        if (drops_scores()) backward("score_dropout_backward", all, width + mask, width);
        if (causal) cast_back(all, matrix, wide);
        backward("softmax_backward", all, 2.0 * wide, width);
        if (causal) backward("mask_backward", all, matrix, matrix);
        if (!causal) cast_back(all, wide, matrix);
        backward("scale_backward", all, matrix, matrix);
    }
};

}  // namespace stepcast
