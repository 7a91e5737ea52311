// Attention block: norm, query/key/value projections, attention, output projection, residual.
//   plain: scores = Q K^T; scale, mask and softmax (reads only what a causal mask leaves, writes all); dropout reads
//   and writes one and writes its mask; then scores V. Backward mirrors it: two GEMMs for each of the two, dropout and softmax.
//   flash: one kernel. MLA: keys and values are projected from a latent of kv_rank (+ rope_dim), queries from one of
//   q_rank (DeepSeek-V2, arXiv 2405.04434).
// Context parallel: causal work is spread evenly (each rank holds an early and a late part of the sequence), so a rank's
// queries see half of the keys; keys and values of the others come round a ring beside the attention, or before it.
#include "model/transformer/passes.h"
#include "model/transformer/tensor_parallel.h"

namespace stepcast {
namespace {

Linear qkv_linear(const LayerContext& c) {
    const RankShape& s = c.shape;
    return {"qkv", s.tokens, (s.heads + 2 * s.kv_heads) * s.qk_dim, s.hidden, s.matrix};
}
// Without fused_projections; values are as wide as keys.
Linear query_linear(const LayerContext& c) {
    return {"query", c.shape.tokens, c.shape.heads * c.shape.qk_dim, c.shape.hidden, c.shape.matrix};
}
Linear key_linear(const LayerContext& c, std::string_view name) {
    return {name, c.shape.tokens, c.shape.kv_heads * c.shape.qk_dim, c.shape.hidden, c.shape.matrix};
}
Linear output_linear(const LayerContext& c) {
    const RankShape& s = c.shape;
    return {"attention_output", s.tokens, s.hidden, s.heads * s.value_dim, s.matrix};
}

struct MlaLinears {
    Linear down;  // to the latents of queries and keys/values and the shared rotary key; not tensor parallel
    Linear query_up, key_value_up;
};
MlaLinears mla_linears(const LayerContext& c) {
    const RankShape& s = c.shape;
    const Mla& m = c.experiment.workload.mla;
    const long latent = m.q_rank + m.kv_rank + m.rope_dim;
    const long query_in = m.q_rank > 0 ? m.q_rank : s.hidden;
    return {{"mla_down", s.outer_tokens, latent, s.hidden, s.matrix},
            {"mla_query_up", s.tokens, s.heads * s.qk_dim, query_in, s.matrix},
            {"mla_key_value_up", s.tokens, s.heads * (m.nope_dim + m.value_dim), m.kv_rank, s.matrix}};
}

Bytes latent_bytes(const LayerContext& c) {
    const Mla& m = c.experiment.workload.mla;
    return static_cast<double>(c.shape.outer_tokens * (m.q_rank + m.kv_rank)) * c.shape.element();
}

bool is_mla(const LayerContext& c) { return c.experiment.workload.attention == AttentionKind::mla; }

void plan_projections(Planner& planner, const LayerContext& c) {
    if (!is_mla(c) && c.experiment.workload.fused_projections) return plan_column_forward(planner, c, qkv_linear(c));
    if (!is_mla(c)) {
        plan_column_forward(planner, c, query_linear(c));
        plan_linear(planner, key_linear(c, "key"));
        return plan_linear(planner, key_linear(c, "value"));
    }
    const MlaLinears l = mla_linears(c);
    plan_linear(planner, l.down);
    planner.compute("latent_norm", MemoryPass{latent_bytes(c), latent_bytes(c)}, 2);
    plan_column_forward(planner, c, l.query_up);
    plan_linear(planner, l.key_value_up);
}

void plan_projections_backward(BackwardPlanners b, const LayerContext& c) {
    if (!is_mla(c) && c.experiment.workload.fused_projections) return plan_column_backward(b, c, qkv_linear(c));
    if (!is_mla(c)) {
        for (const Linear& linear : {key_linear(c, "value"), key_linear(c, "key")}) {
            plan_input_gradient(b.inputs, linear);
            plan_weight_gradient(b.weights, linear, c.experiment);
        }
        plan_column_backward(b, c, query_linear(c));
        return plan_gradient_sum(b.inputs, c, 2);
    }
    const MlaLinears l = mla_linears(c);
    plan_input_gradient(b.inputs, l.key_value_up);
    plan_weight_gradient(b.weights, l.key_value_up, c.experiment);
    plan_column_backward(b, c, l.query_up);
    b.inputs.compute("latent_norm", MemoryPass{2.0 * latent_bytes(c), latent_bytes(c)}, 2);
    plan_input_gradient(b.inputs, l.down);
    plan_weight_gradient(b.weights, l.down, c.experiment);
}

// Between projections and attention. Rotary: queries and keys are read and written, values copied. MLA: queries are
// turned, keys put together from their latent part and the shared rotary key, values copied. Plain attention without
// rotary positions lays the heads out anew.
void plan_positions(Planner& planner, const LayerContext& c) {
    const RankShape& s = c.shape;
    const Workload& w = c.experiment.workload;
    if (is_mla(c)) {
        const Bytes query = s.inner(s.heads * s.qk_dim), value = s.inner(s.heads * s.value_dim);
        const Bytes key_parts = s.inner(s.heads * w.mla.nope_dim + w.mla.rope_dim);
        return planner.compute("rotary", MemoryPass{query + key_parts + value, 2.0 * query + value}, 6);
    }
    const Bytes turned = s.inner((s.heads + 2 * s.kv_heads) * s.qk_dim);
    if (w.positions == Positions::rotary) return planner.compute("rotary", MemoryPass{turned, turned}, 3);
    const Bytes values = s.inner(s.heads * s.value_dim);
    if (w.attention == AttentionKind::plain) planner.compute("head_layout", MemoryPass{values, values});
}

// Gradients of queries, keys and values are turned back and put side by side.
void plan_positions_backward(Planner& planner, const LayerContext& c) {
    const RankShape& s = c.shape;
    const Workload& w = c.experiment.workload;
    if (is_mla(c)) return plan_positions(planner, c);
    const Bytes heads = s.inner((s.heads + 2 * s.kv_heads) * s.qk_dim);
    const Bytes turned = s.inner((s.heads + s.kv_heads) * s.qk_dim);
    if (w.positions == Positions::rotary) planner.compute("rotary_backward", MemoryPass{turned, turned}, 2);
    planner.compute("head_layout_backward", MemoryPass{heads, heads});
    if (w.qkv_bias) planner.compute("bias_gradient", MemoryPass{heads, Bytes(0)});
}

// The fused causal softmax reads only the scores that are seen and writes all.
double seen_share(const LayerContext& c) { return c.experiment.workload.causal ? 0.5 : 1; }

Bytes score_bytes(const LayerContext& c) {
    const RankShape& s = c.shape;
    return static_cast<double>(s.batch * s.heads * s.seq_q) * static_cast<double>(s.seq) * s.element();
}

// One of the batch over the heads. Rows of queries, keys and values begin at multiples of a head's width; where those are no
// multiples of 8 elements the libraries that plain attention calls leave the tensor cores: such products run at the rate of fp32.
// (BLOOM's search for a split: heads of 150 and of 108 take 30 to 40 s more of a step than those of 112, 12 TFLOP/s.)
Gemm score_gemm(const LayerContext& c, long m, long n, long k) {
    const RankShape& s = c.shape;
    const bool aligned = s.qk_dim % 8 == 0 && s.value_dim % 8 == 0;
    return {m, n, k, s.batch * s.heads, aligned ? s.storage : Dtype::fp32};
}

Attention flash_op(const LayerContext& c, bool backward) {
    const RankShape& s = c.shape;
    Attention op{s.batch, s.heads, s.seq_q, s.seq, s.qk_dim, c.experiment.workload.causal, backward, s.storage, true};
    op.second_generation = c.experiment.workload.attention == AttentionKind::flash2;
    op.value_dim = s.value_dim;
    if (op.causal && s.seq_q < s.seq) {
        op.causal = false;
        op.seq_k = s.seq / 2;
    }
    return op;
}

void plan_scores_backward(Planner& planner, const LayerContext& c) {
    const RankShape& s = c.shape;
    const Bytes scores = score_bytes(c);
    planner.compute("values", score_gemm(c, s.seq_q, s.seq, s.value_dim));
    planner.compute("values", score_gemm(c, s.seq, s.value_dim, s.seq_q));
    if (drops(c)) planner.compute("score_dropout_backward", MemoryPass{scores + mask_of(c, scores), scores});
    planner.compute("softmax_backward", MemoryPass{2.0 * seen_share(c) * scores, scores});
    planner.compute("scores", score_gemm(c, s.seq_q, s.qk_dim, s.seq));
    planner.compute("scores", score_gemm(c, s.seq, s.qk_dim, s.seq_q));
}

// Keys and values of the whole sequence on every context-parallel rank.
AllGather keys_and_values(const LayerContext& c) {
    const RankShape& s = c.shape;
    const double width = static_cast<double>(s.kv_heads * (s.qk_dim + s.value_dim));
    return {static_cast<double>(s.batch * s.seq) * width * s.element()};
}

template <typename Work>
void with_context(Planner& planner, const LayerContext& c, bool backward, Work work) {
    const bool ring = c.experiment.parallelism.context_exchange == ContextExchange::ring;
    const AllGather all = keys_and_values(c);
    // In the backward, keys and values come again and their gradients go back.
    const Op back = ReduceScatter{2.0 * all.bytes};
    const Op op = backward ? back : Op(all);
    const std::string_view name = backward ? "cp_reduce_scatter" : "cp_all_gather";
    if (!ring) planner.collective(name, op, c.groups.context);
    beside(planner, ring, name, op, c.groups.context, work);
}

}  // namespace

void plan_scores_forward(Planner& planner, const LayerContext& c) {
    const RankShape& s = c.shape;
    const double seen = seen_share(c);
    const Bytes scores = score_bytes(c);
    planner.compute("scores", score_gemm(c, s.seq_q, s.seq, s.qk_dim));
    planner.compute("softmax", MemoryPass{seen * scores, scores});
    if (drops(c)) planner.compute("score_dropout", MemoryPass{scores, scores + mask_of(c, scores)});
    planner.compute("values", score_gemm(c, s.seq_q, s.value_dim, s.seq));
}

void plan_attention_forward(Planner& planner, const LayerContext& c) {
    plan_norm(planner, c, "attention_norm");
    plan_projections(planner, c);
    plan_positions(planner, c);
    with_context(planner, c, false, [&] {
        if (c.experiment.workload.attention == AttentionKind::plain)
            plan_scores_forward(planner, c);
        else
            planner.compute("attention", flash_op(c, false));
    });
    plan_row_forward(planner, c, output_linear(c));
    plan_residual(planner, c);
}

void plan_attention_backward(BackwardPlanners b, const LayerContext& c) {
    const bool again = c.experiment.parallelism.recompute == Recompute::selective;
    plan_residual_backward(b.inputs, c);
    plan_row_backward(b, c, output_linear(c));
    with_context(b.inputs, c, true, [&] {
        if (c.experiment.workload.attention == AttentionKind::plain) {
            if (again) plan_scores_forward(b.inputs, c);
            plan_scores_backward(b.inputs, c);
        } else {
            b.inputs.compute("attention_backward", flash_op(c, true), 2);
        }
    });
    plan_positions_backward(b.inputs, c);
    plan_projections_backward(b, c);
    plan_norm_backward(b.inputs, c, "attention_norm_backward");
}

}  // namespace stepcast
