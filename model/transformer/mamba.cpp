// A layer of a hybrid model (Nemotron-H, arXiv 2504.03624): a Mamba-2 block, and the share of an attention block that falls
// to each layer where those are few, spread evenly.
// Mamba-2 (arXiv 2405.21060, sections 6 and 7): norm; one projection to gate z and input x (heads x head_dim each), B and C
// (groups x state each) and a step for each head; a short convolution over x, B, C; the scan by pieces of Q tokens, as
// batched products: C B^T and that times x inside a piece, states from B and x, their part in y from C; a gated norm; the
// projection out. Backward: two products for each, and the passes with their gradients.
#include <algorithm>
#include <cmath>

#include "model/transformer/passes.h"
#include "model/transformer/tensor_parallel.h"

namespace stepcast {
namespace {

constexpr long piece = 128;  // Q

struct Scan {
    long heads, width, state, groups;  // this rank's heads and groups
    [[nodiscard]] long inner() const { return heads * width; }
    [[nodiscard]] long around() const { return inner() + 2 * groups * state; }  // x, B, C
};
Scan scan_of(const LayerContext& c) {
    const Mamba& m = c.experiment.workload.mamba;
    const int tp = c.experiment.parallelism.tp;
    return {(m.heads + tp - 1) / tp, m.head_dim, m.state, (m.groups + tp - 1) / tp};
}

Linear projection_in(const LayerContext& c, const Scan& s) {
    return {"mamba_in", c.shape.tokens, s.inner() + s.around() + s.heads, c.shape.hidden, c.shape.matrix};
}
Linear projection_out(const LayerContext& c, const Scan& s) {
    return {"mamba_out", c.shape.tokens, c.shape.hidden, s.inner(), c.shape.matrix};
}

void plan_pieces(Planner& planner, const LayerContext& c, const Scan& s) {
    const long pieces = (c.shape.tokens + piece - 1) / piece;
    const Dtype dtype = c.shape.storage;
    planner.compute("scan_scores", Gemm{piece, piece, s.state, pieces * s.groups, dtype});
    planner.compute("scan_inside", Gemm{piece, s.width, piece, pieces * s.heads, dtype});
    planner.compute("scan_states", Gemm{s.width, s.state, piece, pieces * s.heads, dtype});
    planner.compute("scan_between", Gemm{piece, s.width, s.state, pieces * s.heads, dtype});
}

// The context of the attention's share.
LayerContext attention_part(const LayerContext& c) {
    LayerContext part = c;
    const double share = c.experiment.workload.mamba.attention;
    const auto of = [&](long heads) { return std::max(1L, std::lround(share * static_cast<double>(heads))); };
    part.shape.heads = of(c.shape.heads);
    part.shape.kv_heads = of(c.shape.kv_heads);
    return part;
}

}  // namespace

void plan_hybrid_forward(Planner& planner, const LayerContext& c) {
    const Scan s = scan_of(c);
    const Bytes inner = c.shape.inner(s.inner()), around = c.shape.inner(s.around());
    plan_norm(planner, c, "mamba_norm");
    plan_column_forward(planner, c, projection_in(c, s));
    planner.compute("convolution", MemoryPass{around, around});
    plan_pieces(planner, c, s);
    planner.compute("scan", MemoryPass{2.0 * around, 2.0 * inner});
    planner.compute("gated_norm", MemoryPass{2.0 * inner, inner});
    plan_row_forward(planner, c, projection_out(c, s));
    plan_residual(planner, c);
    if (c.experiment.workload.mamba.attention > 0) plan_attention_forward(planner, attention_part(c));
}

void plan_hybrid_backward(BackwardPlanners b, const LayerContext& c) {
    const Scan s = scan_of(c);
    const Bytes inner = c.shape.inner(s.inner()), around = c.shape.inner(s.around());
    if (c.experiment.workload.mamba.attention > 0) plan_attention_backward(b, attention_part(c));
    plan_residual_backward(b.inputs, c);
    plan_row_backward(b, c, projection_out(c, s));
    b.inputs.compute("gated_norm_backward", MemoryPass{3.0 * inner, 2.0 * inner}, 2);
    plan_pieces(b.inputs, c, s);
    plan_pieces(b.inputs, c, s);
    b.inputs.compute("scan_backward", MemoryPass{4.0 * around + 2.0 * inner, 2.0 * around}, 4);
    b.inputs.compute("convolution_backward", MemoryPass{2.0 * around, around}, 2);
    plan_column_backward(b, c, projection_in(c, s));
    plan_norm_backward(b.inputs, c, "mamba_norm_backward");
}

}  // namespace stepcast
