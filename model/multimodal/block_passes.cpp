// A block, forward: norm, projections, (rotary positions), scale, scores, (mask), softmax, values, back to rows,
// (norm), output projection, residual; norm, first product, activation, (norm), second product, residual. Its
// backward mirrors it as automatic differentiation runs it: a tensor that is used twice has its gradients added, each
// bias is a sum over rows, a norm's backward reads input and gradient once for its input's gradient and once for its
// weights'.
//
// Passes, in units of the tensor (r reads, w writes), 16 bit:
//   scale r1 w1; mask added in place r1 w1; softmax r1 w1, under autocast fp32 results (w2) cast for the next product
//   (r2 w1); of the backward r2 w1, under autocast cast r1 w2, softmax r4 w1
//   packed projections: three contiguous copies r3 w3; backward: joined again r3 w3
//   rotary, for queries and for keys: x cos r1 w1, every second element negated r1 w.5, interleaved with the others
//   r1.5 w1, times sin r1 w1, sum r2 w1, class token put in front r1 w1; backward: two products, negation and
//   interleaving again, sum, two gradients of slices (zeros, copy) and their sum: r9.5 w8.5. Values are copied for
//   the product; the backward lays three gradients out as rows
//   GELU r1 w1, backward r2 w1; gated: SiLU r1 w1, product r2 w1; backward: two products r2 w1, SiLU r2 w1
// Reading every second 16-bit element moves all bytes. Ignores launch gaps.
#include "model/multimodal/plans.h"

namespace stepcast {
namespace {

// Writes the tasks of one block; names begin with the block's.
class Writer {
public:
    Writer(Planner& planner, const TowerBlock& block, const TowerContext& context)
        : planner_(planner), b_(block), c_(context), s_(sizes_of(block, context)) {}

    void forward() {
        if (!b_.pools()) norm("norm1", s_.rows);
        if (b_.cross) norm("key_norm", s_.keys);
        project();
        if (b_.rotary) {
            pass("rotary", 15, 11, s_.rows, 12);
            pass("head_layout", 1, 1, s_.rows);
        } else if (!b_.cross) {
            pass("head_layout", 3, 3, s_.rows, 3);
        }
        attend();
        pass("rows", 1, 1, s_.rows);
        if (b_.sub_norms) norm("inner_norm", s_.rows, true);
        plan_linear(planner_, linear("output", rows(), b_.hidden, b_.hidden));
        if (b_.pools()) return;
        pass("residual", 2, 1, s_.rows);
        norm("norm2", s_.rows);
        feed();
        pass("residual", 2, 1, s_.rows);
    }

    void backward() {
        if (!b_.pools()) feed_backward();
        both_gradients(linear("output", rows(), b_.hidden, b_.hidden), true);
        if (b_.sub_norms) norm_backward("inner_norm_backward", s_.rows, true);
        pass("rows_backward", 1, 1, s_.rows);
        attend_backward();
        if (b_.rotary) {
            pass("rotary_backward", 19, 17, s_.rows, 24);
            pass("head_layout_backward", 3, 3, s_.rows, 3);
        } else if (!b_.cross) {
            pass("head_layout_backward", 3, 3, s_.rows);
        }
        project_backward();
        if (b_.cross) {
            norm_backward("key_norm_backward", s_.keys);
            if (!b_.pools()) pass("key_sum", 2, 1, s_.keys);
        }
        if (b_.pools()) return;
        norm_backward("norm1_backward", s_.rows);
        pass("residual_backward", 2, 1, s_.rows);
    }

private:
    [[nodiscard]] std::string name(std::string_view part) const { return b_.name + "_" + std::string(part); }
    [[nodiscard]] long rows() const { return c_.batch() * b_.seq; }
    [[nodiscard]] long key_rows() const { return c_.batch() * b_.keys; }
    [[nodiscard]] long head_width() const { return b_.hidden / b_.heads; }
    [[nodiscard]] double gates() const { return b_.gated ? 2 : 1; }

    // `name_` holds the text that the linear layer refers to.
    Linear linear(std::string_view part, long tokens, long out, long in) {
        name_ = name(part);
        return {name_, tokens, out, in, c_.workload().dtype};
    }
    void pass(std::string_view part, double read, double written, Bytes tensor, float calls = 1) {
        planner_.compute(name(part), MemoryPass{read * tensor, written * tensor}, calls);
    }
    void norm(std::string_view part, Bytes x, bool fused = false) {
        plan_tower_norm(planner_, name(part), x, fused || b_.fused_norms, c_);
    }
    void norm_backward(std::string_view part, Bytes x, bool fused = false) {
        plan_tower_norm_backward(planner_, name(part), x, fused || b_.fused_norms, c_);
    }
    void both_gradients(const Linear& l, bool bias) {
        plan_input_gradient(planner_, l);
        plan_weight_gradient(planner_, l, c_.experiment);
        const Bytes out = static_cast<double>(l.tokens) * static_cast<double>(l.out.rank) * c_.element();
        if (bias) planner_.compute(name("bias_gradient"), MemoryPass{out, Bytes(0)});
    }
    // A product with the scores, whose rows hold a number for each key.
    void gemm(std::string_view part, long m, long n, long k) {
        const bool unaligned = b_.keys % 8 != 0;
        planner_.compute(name(part), Gemm{m, n, k, c_.batch() * b_.heads, c_.workload().dtype, false, unaligned});
    }

    void project() {
        if (b_.cross) {
            plan_linear(planner_, linear("query", rows(), b_.hidden, b_.hidden));
            for (int i = 0; i < 2; ++i) plan_linear(planner_, linear("key_value", key_rows(), b_.hidden, b_.key_width));
        } else if (b_.rotary) {
            for (int i = 0; i < 3; ++i) plan_linear(planner_, linear("qkv", rows(), b_.hidden, b_.hidden));
        } else {
            plan_linear(planner_, linear("qkv", rows(), 3 * b_.hidden, b_.hidden));
        }
    }
    void project_backward() {
        if (b_.cross) {
            both_gradients(linear("query", rows(), b_.hidden, b_.hidden), true);
            for (int i = 0; i < 2; ++i) both_gradients(linear("key_value", key_rows(), b_.hidden, b_.key_width), true);
            pass("projection_sum", 2, 1, s_.keys);
        } else if (b_.rotary) {
            for (int i = 0; i < 3; ++i) both_gradients(linear("qkv", rows(), b_.hidden, b_.hidden), i != 1);
            pass("projection_sum", 4, 2, s_.rows, 2);
        } else {
            both_gradients(linear("qkv", rows(), 3 * b_.hidden, b_.hidden), true);
        }
    }

    void attend() {
        pass("scale", 1, 1, s_.rows);
        gemm("scores", b_.seq, b_.keys, head_width());
        if (b_.causal) pass("mask", 1, 1, s_.scores);
        if (c_.casts())
            pass("softmax", 1 + 2, 2 + 1, s_.scores, 2);
        else
            pass("softmax", 1, 1, s_.scores);
        gemm("values", b_.seq, head_width(), b_.keys);
    }
    void attend_backward() {
        gemm("values", b_.seq, b_.keys, head_width());
        gemm("values", b_.keys, head_width(), b_.seq);
        if (c_.casts())
            pass("softmax_backward", 1 + 4, 2 + 1, s_.scores, 2);
        else
            pass("softmax_backward", 2, 1, s_.scores);
        gemm("scores", b_.seq, head_width(), b_.keys);
        gemm("scores", b_.keys, head_width(), b_.seq);
        pass("scale_backward", 1, 1, s_.rows);
    }

    void feed() {
        for (int i = 0; i < (b_.gated ? 2 : 1); ++i) plan_linear(planner_, linear("up", rows(), b_.ffn, b_.hidden));
        pass("activation", 1, 1, s_.inner);
        if (b_.gated) pass("gate", 2, 1, s_.inner);
        if (b_.sub_norms) norm("ffn_norm", s_.inner, true);
        plan_linear(planner_, linear("down", rows(), b_.hidden, b_.ffn));
    }
    void feed_backward() {
        both_gradients(linear("down", rows(), b_.hidden, b_.ffn), true);
        if (b_.sub_norms) norm_backward("ffn_norm_backward", s_.inner, true);
        if (b_.gated) pass("gate_backward", 4, 2, s_.inner, 2);
        pass("activation_backward", 2, 1, s_.inner);
        for (int i = 0; i < (b_.gated ? 2 : 1); ++i) both_gradients(linear("up", rows(), b_.ffn, b_.hidden), true);
        if (b_.gated) pass("projection_sum", 2, 1, s_.rows);
        norm_backward("norm2_backward", s_.rows);
        pass("residual_backward", 2, 1, s_.rows);
    }

    Planner& planner_;
    const TowerBlock& b_;
    const TowerContext& c_;
    BlockSizes s_;
    std::string name_;
};

}  // namespace

BlockSizes sizes_of(const TowerBlock& b, const TowerContext& c) {
    const auto batch = static_cast<double>(c.batch());
    const Bytes position = batch * c.element();
    return {static_cast<double>(b.seq * b.hidden) * position, static_cast<double>(b.keys * b.key_width) * position,
            static_cast<double>(b.seq * b.ffn) * position, static_cast<double>(b.heads * b.seq * b.keys) * position};
}

void plan_block_forward(Planner& planner, const TowerBlock& b, const TowerContext& c) { Writer(planner, b, c).forward(); }
void plan_block_backward(Planner& planner, const TowerBlock& b, const TowerContext& c) { Writer(planner, b, c).backward(); }

void plan_tower_norm(Planner& planner, const std::string& name, Bytes x, bool fused, const TowerContext& c) {
    if (fused || !c.casts()) return planner.compute(name, MemoryPass{x, x});
    planner.compute(name, MemoryPass{(1 + 2 + 2) * x, (2 + 2 + 1) * x}, 3);
}

void plan_tower_norm_backward(Planner& planner, const std::string& name, Bytes x, bool fused, const TowerContext& c) {
    if (fused || !c.casts()) return planner.compute(name, MemoryPass{4 * x, x}, 2);
    planner.compute(name, MemoryPass{(1 + 8 + 2) * x, (2 + 2 + 1) * x}, 4);
}

}  // namespace stepcast
