#include "model/recorded/coca/block_passes.h"

#include <algorithm>

#include "model/base/numbers.h"
#include "model/recorded/coca/blocks.h"
#include "model/recorded/coca/parts.h"

namespace stepcast {
namespace {

// One rule per operator; the names begin with the block's name.
struct TowerRules {
    const PassWriter& out;
    const TowerBlock& b;
    const TowerContext& c;
    const BlockSizes s = sizes_of(b, c);

    void operator()(Linear op) const {
        const std::string name = named(op.name);
        op.name = name;
        plan_products(out, op, c.experiment);
        if (op.bias) backward("bias_gradient", 1, 0, elements(op.tokens, op.out.rank));
    }
    void operator()(const Fork& op) const {
        const double further = op.readers - 1;
        backward(op.sum, 2 * further, further, op.elements * c.element(),
                 static_cast<float>(further));
    }
    void operator()(const Normalize& op) const {
        plan_tower_norm(out, named(op.name), elements(op.rows, op.width), op.inner || b.fused_norms,
                        c);
    }
    void operator()(const HeadLayout&) const {
        if (b.rotary) forward("rotary", 15, 11, s.rows, 12);
        if (b.rotary) forward("head_layout", 1, 1, s.rows);
        if (!b.rotary && !b.cross) forward("head_layout", 3, 3, s.rows, 3);
        if (b.rotary) backward("rotary_backward", 19, 17, s.rows, 24);
        if (!b.cross) backward("head_layout_backward", 3, 3, s.rows, b.rotary ? 3 : 1);
    }
    void operator()(const Attend&) const {
        const long width = b.hidden / b.heads;
        const bool casts = c.casts();
        forward("scale", 1, 1, s.rows);
        out.forward(named("scores"), product(b.seq, b.keys, width));
        if (b.causal) forward("mask", 1, 1, s.scores);
        forward("softmax", casts ? 1 + 2 : 1, casts ? 2 + 1 : 1, s.scores, casts ? 2 : 1);
        out.forward(named("values"), product(b.seq, width, b.keys));
        forward("rows", 1, 1, s.rows);

        backward("rows_backward", 1, 1, s.rows);
        out.backward(named("values"), product(b.seq, b.keys, width));
        out.backward(named("values"), product(b.keys, width, b.seq));
        backward("softmax_backward", casts ? 1 + 4 : 2, casts ? 2 + 1 : 1, s.scores, casts ? 2 : 1);
        out.backward(named("scores"), product(b.seq, width, b.keys));
        out.backward(named("scores"), product(b.keys, width, b.seq));
        backward("scale_backward", 1, 1, s.rows);
    }
    void operator()(const Activate&) const {
        forward("activation", 1, 1, s.inner);
        backward("activation_backward", 2, 1, s.inner);
    }
    // The backward has one product for each factor.
    void operator()(const Elementwise& op) const {
        forward(op.name, 2, 1, s.inner);
        backward(backward_name(op.name), 4, 2, s.inner, 2);
    }
    void operator()(const Residual&) const { forward("residual", 2, 1, s.rows); }
    // Operators that no tower has.
    void operator()(
        const OneOf<Cast, WithMemory, AttendRelative, Scan, DeltaRule, Index, Route, ToExperts,
                    GroupedLinear, FromExperts, AddShared, Embed, Loss, SpanLoss> auto&) const {}

private:
    [[nodiscard]] std::string named(std::string_view part) const {
        return b.name + "_" + std::string(part);
    }
    [[nodiscard]] Bytes elements(long rows, long width) const {
        return real(rows) * real(width) * c.element();
    }
    void forward(std::string_view part, double read, double written, Bytes tensor,
                 float calls = 1) const {
        out.forward(named(part), MemoryPass{read * tensor, written * tensor}, calls);
    }
    void backward(std::string_view part, double read, double written, Bytes tensor,
                  float calls = 1) const {
        out.backward(named(part), MemoryPass{read * tensor, written * tensor}, calls);
    }
    // A product with the scores, whose rows have one number per key.
    [[nodiscard]] Gemm product(long m, long n, long k) const {
        return {m, n, k, c.batch() * b.heads, c.workload().dtype, false, alignment_of(b.keys)};
    }
};

}  // namespace

BlockSizes sizes_of(const TowerBlock& b, const TowerContext& c) {
    const auto tensor = [&](long rows, long width) {
        return real(c.batch() * rows * width) * c.element();
    };
    return {tensor(b.seq, b.hidden), tensor(b.keys, b.key_width), tensor(b.seq, b.ffn),
            tensor(b.seq, b.heads * b.keys)};
}

void plan_tower_block(const PassWriter& out, const TowerBlock& b, const TowerContext& c) {
    const TowerRules rules{out, b, c};
    Block block = operators_of(b, c.batch(), c.workload().dtype);
    if (out.back != nullptr) std::ranges::reverse(block);
    for (const Operator& op : block) std::visit(rules, op);
}

void plan_tower_norm(const PassWriter& out, const std::string& name, Bytes x, bool fused,
                     const TowerContext& c) {
    const bool casts = !fused && c.casts();
    out.forward(name, casts ? MemoryPass{(1 + 2 + 2) * x, (2 + 2 + 1) * x} : MemoryPass{x, x},
                casts ? 3 : 1);
    out.backward(backward_name(name),
                 casts ? MemoryPass{(1 + 8 + 2) * x, (2 + 2 + 1) * x} : MemoryPass{4 * x, x},
                 casts ? 4 : 2);
}

}  // namespace stepcast
