// Attention and feed-forward block operation by operation. S elements of scores, A of a tensor tokens x hidden:
//   causal (GPT-2): mask by choosing between score and a constant; softmax reads narrow and writes wide scores, which are cast
//   back before dropout. Not causal (BERT): the mask is added, which makes the scores wide until after dropout.
// Queries, keys and values are copied head by head, as batched products want them.
#include "model/transformer/operations.h"

namespace stepcast {
namespace {

Linear qkv(const LayerContext& c) {
    const RankShape& s = c.shape;
    return {"qkv", s.tokens, (s.heads + 2 * s.kv_heads) * s.qk_dim, s.hidden, s.matrix};
}
Linear output(const LayerContext& c) {
    const RankShape& s = c.shape;
    return {"attention_output", s.tokens, s.hidden, s.heads * s.value_dim, s.matrix};
}
Linear up(const LayerContext& c) { return {"ffn_up", c.shape.tokens, c.shape.ffn, c.shape.hidden, c.shape.matrix}; }
Linear down(const LayerContext& c) { return {"ffn_down", c.shape.tokens, c.shape.hidden, c.shape.ffn, c.shape.matrix}; }

double scores(const LayerContext& c) {
    const RankShape& s = c.shape;
    return static_cast<double>(s.batch * s.heads * s.seq_q) * static_cast<double>(s.seq);
}
double projected(const LayerContext& c) { return static_cast<double>(qkv(c).tokens * qkv(c).out); }

void plan_softmax(Operations& ops, const LayerContext& c) {
    const double all = scores(c);
    const bool causal = c.experiment.workload.causal;
    ops.pass("scale", all, ops.matrix, ops.matrix);
    ops.pass("mask", all, ops.matrix, causal ? ops.matrix : ops.wide);
    ops.pass("softmax", all, causal ? ops.matrix : ops.wide, ops.wide);
    if (causal) ops.narrow(all);
    const Bytes width = causal ? ops.matrix : ops.wide;
    if (ops.mask > Bytes(0)) ops.pass("score_dropout", all, width, width + ops.mask);
    if (!causal) ops.narrow(all);
}

void plan_softmax_backward(Operations& ops, const LayerContext& c) {
    const double all = scores(c);
    const bool causal = c.experiment.workload.causal;
    const Bytes width = causal ? ops.matrix : ops.wide;
    if (!causal) ops.widen(all);
    if (ops.mask > Bytes(0)) ops.pass("score_dropout_backward", all, width + ops.mask, width);
    if (causal) ops.widen(all);
    ops.pass("softmax_backward", all, 2.0 * ops.wide, width);
    if (causal)
        ops.pass("mask_backward", all, ops.matrix, ops.matrix);
    else
        ops.narrow(all);
    ops.pass("scale_backward", all, ops.matrix, ops.matrix);
}

}  // namespace

void plan_unfused_attention_forward(Planner& planner, const LayerContext& c) {
    const RankShape& s = c.shape;
    const long batch = s.batch * s.heads;
    Operations ops(planner, c);
    ops.norm("attention_norm");
    ops.narrow(ops.outer());
    ops.linear(qkv(c));
    ops.pass("head_layout", projected(c), ops.matrix, ops.matrix, 3);
    planner.compute("scores", Gemm{s.seq_q, s.seq, s.qk_dim, batch, s.storage});
    plan_softmax(ops, c);
    planner.compute("values", Gemm{s.seq_q, s.value_dim, s.seq, batch, s.storage});
    ops.pass("head_layout", ops.outer(), ops.matrix, ops.matrix);
    ops.linear(output(c));
    ops.residual();
}

void plan_unfused_attention_backward(BackwardPlanners b, const LayerContext& c) {
    const RankShape& s = c.shape;
    const Workload& w = c.experiment.workload;
    const long batch = s.batch * s.heads;
    Operations ops(b.inputs, c);
    ops.residual_backward();
    plan_unfused_linear_backward(b, c, output(c), w.linear_bias);
    ops.pass("head_layout_backward", ops.outer(), ops.matrix, ops.matrix);
    b.inputs.compute("values", Gemm{s.seq_q, s.seq, s.value_dim, batch, s.storage});
    b.inputs.compute("values", Gemm{s.seq, s.value_dim, s.seq_q, batch, s.storage});
    plan_softmax_backward(ops, c);
    b.inputs.compute("scores", Gemm{s.seq_q, s.qk_dim, s.seq, batch, s.storage});
    b.inputs.compute("scores", Gemm{s.seq, s.qk_dim, s.seq_q, batch, s.storage});
    ops.pass("head_layout_backward", projected(c), 2.0 * ops.matrix, 2.0 * ops.matrix, 4);
    plan_unfused_linear_backward(b, c, qkv(c), w.qkv_bias);
    ops.widen(ops.outer());
    ops.norm_backward("attention_norm_backward");
}

void plan_unfused_feed_forward(Planner& planner, const LayerContext& c) {
    Operations ops(planner, c);
    ops.norm("ffn_norm");
    ops.narrow(ops.outer());
    ops.linear(up(c));
    ops.activation();
    ops.linear(down(c));
    ops.residual();
}

void plan_unfused_feed_forward_backward(BackwardPlanners b, const LayerContext& c) {
    const bool bias = c.experiment.workload.linear_bias;
    Operations ops(b.inputs, c);
    ops.residual_backward();
    plan_unfused_linear_backward(b, c, down(c), bias);
    ops.activation_backward();
    plan_unfused_linear_backward(b, c, up(c), bias);
    ops.widen(ops.outer());
    ops.norm_backward("ffn_norm_backward");
}

}  // namespace stepcast
