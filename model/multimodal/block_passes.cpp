// Attention, forward: scale, scores, (mask), softmax, values, back to rows. The backward runs as automatic differentiation does:
// each bias is a sum over rows, a norm's backward reads input and gradient once for its input's gradient and once for its
// weights'. Passes, in units of the tensor (r reads, w writes), 16 bit:
//   scale r1 w1; mask added in place r1 w1; softmax r1 w1, under autocast fp32 results (w2) cast for the next product
//   (r2 w1); of the backward r2 w1, under autocast cast r1 w2, softmax r4 w1
//   packed projections: three contiguous copies r3 w3; backward: joined again r3 w3
//   rotary, for queries and for keys: x cos r1 w1, every second element negated r1 w.5, interleaved with the others
//   r1.5 w1, times sin r1 w1, sum r2 w1, class token put in front r1 w1; backward: two products, negation and
//   interleaving again, sum, two gradients of slices (zeros, copy) and their sum: r9.5 w8.5. Values are copied for
//   the product; the backward lays three gradients out as rows
//   GELU r1 w1, backward r2 w1; gated: SiLU r1 w1, product r2 w1; backward: two products r2 w1, SiLU r2 w1
// Reading every second 16-bit element moves all bytes. Ignores launch gaps.
#include "model/graph/op_kinds.h"
#include "model/multimodal/parts.h"

namespace stepcast {
namespace {

// No tower has these.
template <class T>
concept Foreign = OneOf<T, Cast, WithMemory, AttendRelative, Scan, Route, ToExperts, GroupedLinear, FromExperts, AddShared, Embed,
                        Loss, SpanLoss>;

// The kernels of one operator, forward and backward; names begin with the block's.
class Kernels {
public:
    Kernels(Planner& planner, const TowerBlock& block, const TowerContext& context)
        : planner_(planner), b_(block), c_(context), s_(sizes_of(block, context)) {}

    void forward(Linear op) const {
        const std::string name = named(op.name);
        op.name = name;
        plan_linear(planner_, op);
    }
    void backward(Linear op) const {
        const std::string name = named(op.name);
        op.name = name;
        plan_input_gradient(planner_, op);
        plan_weight_gradient(planner_, op, c_.experiment);
        if (op.bias) pass("bias_gradient", 1, 0, elements(op.tokens, op.out.rank));
    }
    void forward(const Fork&) const {}
    void backward(const Fork& op) const {
        const double further = op.readers - 1;
        pass(op.sum, 2 * further, further, op.elements * c_.element(), static_cast<float>(further));
    }
    void forward(const Normalize& op) const {
        plan_tower_norm(planner_, named(op.name), elements(op.rows, op.width), op.inner || b_.fused_norms, c_);
    }
    void backward(const Normalize& op) const {
        plan_tower_norm_backward(planner_, named(backward_name(op.name)), elements(op.rows, op.width),
                                 op.inner || b_.fused_norms, c_);
    }
    void forward(const HeadLayout&) const {
        if (b_.rotary) {
            pass("rotary", 15, 11, s_.rows, 12);
            pass("head_layout", 1, 1, s_.rows);
        } else if (!b_.cross) {
            pass("head_layout", 3, 3, s_.rows, 3);
        }
    }
    void backward(const HeadLayout&) const {
        if (b_.rotary) pass("rotary_backward", 19, 17, s_.rows, 24);
        if (!b_.cross) pass("head_layout_backward", 3, 3, s_.rows, b_.rotary ? 3 : 1);
    }
    void forward(const Attend&) const {
        pass("scale", 1, 1, s_.rows);
        gemm("scores", b_.seq, b_.keys, head_width());
        if (b_.causal) pass("mask", 1, 1, s_.scores);
        if (c_.casts())
            pass("softmax", 1 + 2, 2 + 1, s_.scores, 2);
        else
            pass("softmax", 1, 1, s_.scores);
        gemm("values", b_.seq, head_width(), b_.keys);
        pass("rows", 1, 1, s_.rows);
    }
    void backward(const Attend&) const {
        pass("rows_backward", 1, 1, s_.rows);
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
    void forward(const Activate&) const { pass("activation", 1, 1, s_.inner); }
    void backward(const Activate&) const { pass("activation_backward", 2, 1, s_.inner); }
    // Its backward is one product for each of the two.
    void forward(const Elementwise& op) const { pass(op.name, 2, 1, s_.inner); }
    void backward(const Elementwise& op) const { pass(backward_name(op.name), 4, 2, s_.inner, 2); }
    void forward(const Residual&) const { pass("residual", 2, 1, s_.rows); }
    void backward(const Residual&) const {}

    void forward(const Foreign auto&) const {}
    void backward(const Foreign auto&) const {}

private:
    [[nodiscard]] std::string named(std::string_view part) const { return b_.name + "_" + std::string(part); }
    [[nodiscard]] long head_width() const { return b_.hidden / b_.heads; }
    [[nodiscard]] Bytes elements(long rows, long width) const {
        return static_cast<double>(rows) * static_cast<double>(width) * c_.element();
    }
    void pass(std::string_view part, double read, double written, Bytes tensor, float calls = 1) const {
        planner_.compute(named(part), MemoryPass{read * tensor, written * tensor}, calls);
    }
    // A product with the scores, whose rows hold a number for each key.
    void gemm(std::string_view part, long m, long n, long k) const {
        const bool unaligned = b_.keys % 8 != 0;
        planner_.compute(named(part), Gemm{m, n, k, c_.batch() * b_.heads, c_.workload().dtype, false, unaligned});
    }

    Planner& planner_;
    const TowerBlock& b_;
    const TowerContext& c_;
    BlockSizes s_;
};

}  // namespace

BlockSizes sizes_of(const TowerBlock& b, const TowerContext& c) {
    const auto batch = static_cast<double>(c.batch());
    const Bytes position = batch * c.element();
    return {static_cast<double>(b.seq * b.hidden) * position, static_cast<double>(b.keys * b.key_width) * position,
            static_cast<double>(b.seq * b.ffn) * position, static_cast<double>(b.heads * b.seq * b.keys) * position};
}

void plan_block_forward(Planner& planner, const TowerBlock& b, const TowerContext& c) {
    const Kernels kernels(planner, b, c);
    for (const Operator& op : operators_of(b, c.batch(), c.workload().dtype))
        std::visit([&](const auto& of) { kernels.forward(of); }, op);
}

void plan_block_backward(Planner& planner, const TowerBlock& b, const TowerContext& c) {
    const Kernels kernels(planner, b, c);
    const Block block = operators_of(b, c.batch(), c.workload().dtype);
    for (std::size_t i = block.size(); i-- > 0;) std::visit([&](const auto& of) { kernels.backward(of); }, block[i]);
}

void plan_tower_norm(Planner& planner, const std::string& name, Bytes x, bool fused, const TowerContext& c) {
    if (fused || !c.casts()) return planner.compute(name, MemoryPass{x, x});
    planner.compute(name, MemoryPass{(1 + 2 + 2) * x, (2 + 2 + 1) * x}, 3);
}

void plan_tower_norm_backward(Planner& planner, const std::string& name, Bytes x, bool fused, const TowerContext& c) {
    if (fused || !c.casts()) return planner.compute(name, MemoryPass{4 * x, x}, 2);
    planner.compute(name, MemoryPass{(1 + 8 + 2) * x, (2 + 2 + 1) * x}, 4);
}

}  // namespace stepcast
