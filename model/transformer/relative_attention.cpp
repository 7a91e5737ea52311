// Transformer-XL's attention over L = memory + sequence keys (arXiv 1901.02860, section 3.3 and appendix B): memory and
// input are put one after the other and projected together; positions are projected once for all sequences; scores of
// contents (q + u) k and of positions (q + v) r are two batched products; the positions' are shifted row by row (a
// padded copy); then sum, scale, mask, softmax. Memory has no gradient of its own, but its rows go through the
// projection's backward.
#include "model/transformer/operations.h"

namespace stepcast {
namespace {

long keys(const LayerContext& c) { return c.shape.seq + c.experiment.workload.memory; }
long key_rows(const LayerContext& c) { return c.shape.batch * keys(c); }
double key_elements(const LayerContext& c) { return static_cast<double>(key_rows(c) * c.shape.hidden); }
double scores(const LayerContext& c) {
    return static_cast<double>(c.shape.batch * c.shape.heads * c.shape.seq) * static_cast<double>(keys(c));
}

Linear qkv(const LayerContext& c) {
    const RankShape& s = c.shape;
    return {"qkv", key_rows(c), (s.heads + 2 * s.kv_heads) * s.qk_dim, s.hidden, s.matrix};
}
Linear positions(const LayerContext& c) {
    const RankShape& s = c.shape;
    return {"position_projection", keys(c), s.heads * s.qk_dim, s.hidden, s.matrix};
}
Linear output(const LayerContext& c) {
    const RankShape& s = c.shape;
    return {"attention_output", s.tokens, s.hidden, s.heads * s.value_dim, s.matrix};
}

// Rows of scores from queries and keys, or keys' width from scores.
Gemm to_scores(const LayerContext& c) {
    return {c.shape.seq, keys(c), c.shape.qk_dim, c.shape.batch * c.shape.heads, c.shape.storage};
}
Gemm to_queries(const LayerContext& c) {
    return {c.shape.seq, c.shape.qk_dim, keys(c), c.shape.batch * c.shape.heads, c.shape.storage};
}
Gemm to_keys(const LayerContext& c) {
    return {keys(c), c.shape.qk_dim, c.shape.seq, c.shape.batch * c.shape.heads, c.shape.storage};
}

bool drops_scores(const LayerContext& c) {
    return c.experiment.workload.dropout > 0 && !c.experiment.workload.inner_dropout;
}

}  // namespace

void plan_relative_attention_forward(Planner& planner, const LayerContext& c) {
    Operations ops(planner, c);
    const double all = scores(c);
    ops.pass("memory", key_elements(c), ops.wide, ops.wide);
    ops.narrow(key_elements(c));
    ops.linear(qkv(c));
    ops.linear(positions(c));
    ops.pass("position_bias", 2 * ops.outer(), ops.matrix, ops.matrix, 2);
    ops.pass("head_layout", 2 * key_elements(c), ops.matrix, ops.matrix, 2);
    planner.compute("scores", to_scores(c));
    planner.compute("position_scores", to_scores(c));
    ops.pass("shift", all, ops.matrix, ops.matrix);
    ops.pass("sum", all, 2.0 * ops.matrix, ops.matrix);
    ops.pass("scale", all, ops.matrix, ops.matrix);
    ops.pass("mask", all, ops.matrix, ops.matrix);
    ops.pass("softmax", all, ops.matrix, ops.wide);
    ops.narrow(all);
    if (drops_scores(c)) ops.pass("score_dropout", all, ops.matrix, ops.matrix + ops.mask);
    planner.compute("values", to_queries(c));
    ops.pass("head_layout", ops.outer(), ops.matrix, ops.matrix);
    ops.linear(output(c));
    ops.residual();
    ops.norm("attention_norm");
}

void plan_relative_attention_backward(BackwardPlanners b, const LayerContext& c) {
    Operations ops(b.inputs, c);
    const double all = scores(c);
    ops.norm_backward("attention_norm_backward");
    ops.residual_backward();
    plan_unfused_linear_backward(b, c, output(c), false);
    ops.pass("head_layout_backward", ops.outer(), ops.matrix, ops.matrix);
    b.inputs.compute("values", to_scores(c));
    b.inputs.compute("values", to_keys(c));
    if (drops_scores(c)) ops.pass("score_dropout_backward", all, ops.matrix + ops.mask, ops.matrix);
    ops.widen(all);
    ops.pass("softmax_backward", all, 2.0 * ops.wide, ops.matrix);
    ops.pass("mask_backward", all, ops.matrix, ops.matrix);
    ops.pass("scale_backward", all, ops.matrix, ops.matrix);
    ops.pass("shift_backward", all, 2.0 * ops.matrix, 3.0 * ops.matrix, 3);
    for (const char* name : {"scores", "position_scores"}) {
        b.inputs.compute(name, to_queries(c));
        b.inputs.compute(name, to_keys(c));
    }
    ops.pass("position_bias_backward", ops.outer(), 4.0 * ops.matrix, ops.matrix, 3);
    ops.pass("head_layout_backward", 3 * key_elements(c), 2.0 * ops.matrix, 2.0 * ops.matrix, 4);
    plan_weight_gradient(b.weights, positions(c), c.experiment);
    plan_unfused_linear_backward(b, c, qkv(c), false);
    ops.widen(key_elements(c));
    ops.pass("memory_backward", ops.outer(), ops.wide, ops.wide);
}

}  // namespace stepcast
