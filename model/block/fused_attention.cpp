//   plain: scores = Q K^T; scale, mask and softmax (reads only what a causal mask leaves, writes all); dropout reads and
//   writes one and writes its mask; then scores V. Backward mirrors it: two products for each of the two, dropout, softmax.
//   Else one kernel, which computes the scores again in the backward. Only that one leaves out what a window hides.
// Context parallel: causal work is spread evenly (each rank holds an early and a late part of the sequence), so a rank's
// queries see half of the keys; keys and values of the others come round a ring during the attention, or before it.
#include "model/block/blocks.h"
#include "model/block/fused.h"
#include "model/block/linear.h"

namespace stepcast {
namespace {

// The fused causal softmax reads only the scores that are seen and writes all.
double unmasked_share(const Workload& w) { return w.causal ? 0.5 : 1; }

bool is_plain(const Workload& w) { return w.attention == AttentionKind::plain; }

// A product of the batch over the heads. Rows of queries, keys and values begin at multiples of a head's width; where those are
// no multiples of 8 elements the libraries that plain attention calls leave the tensor cores: the product runs at the rate of fp32.
// (BLOOM's search for a split: heads of 150 and of 108 take 30 to 40 s more of a step than those of 112, 12 TFLOP/s.)
Gemm of_heads(const LayerContext& c, long heads, long m, long n, long k) {
    const RankShape& s = c.shape;
    const bool aligned = s.qk_dim % 8 == 0 && s.value_dim % 8 == 0;
    return {m, n, k, s.batch * heads, aligned ? s.storage : Dtype::fp32};
}

// Latent: queries are turned, keys put together from their own part and the shared rotary key, values copied.
MemoryPass latent_layout(const LayerContext& c, long heads) {
    const RankShape& s = c.shape;
    const Mla& m = c.experiment.workload.mla;
    const Bytes query = s.inner(heads * s.qk_dim), value = s.inner(heads * s.value_dim);
    return {query + s.inner(heads * m.nope_dim + m.rope_dim) + value, 2.0 * query + value};
}

}  // namespace

// Rotary: queries and keys are read and written, values copied. Plain attention without rotary positions lays the heads out
// anew.
void Fused::forward(Planner& planner, const HeadLayout& op) const {
    const RankShape& s = c_.shape;
    const Workload& w = workload();
    if (w.attention == AttentionKind::mla) return planner.compute("rotary", latent_layout(c_, op.heads), 6);
    const Bytes turned = s.inner((op.heads + 2 * op.kv_heads) * s.qk_dim), values = s.inner(op.heads * s.value_dim);
    if (w.positions == Positions::rotary) return planner.compute("rotary", MemoryPass{turned, turned}, 3);
    if (is_plain(w)) planner.compute("head_layout", MemoryPass{values, values});
}

// Gradients of queries, keys and values are turned back and put side by side; the bias sums them.
void Fused::backward(BackwardPlanners b, const HeadLayout& op) const {
    const RankShape& s = c_.shape;
    const Workload& w = workload();
    if (w.attention == AttentionKind::mla) return b.inputs.compute("rotary", latent_layout(c_, op.heads), 6);
    const Bytes all = s.inner((op.heads + 2 * op.kv_heads) * s.qk_dim);
    const Bytes turned = s.inner((op.heads + op.kv_heads) * s.qk_dim);
    if (w.positions == Positions::rotary) b.inputs.compute("rotary_backward", MemoryPass{turned, turned}, 2);
    b.inputs.compute("head_layout_backward", MemoryPass{all, all});
    if (op.bias) b.inputs.compute("bias_gradient", MemoryPass{all, Bytes(0)});
}

Bytes Fused::scores(const Attend& op) const {
    const RankShape& s = c_.shape;
    return tensor(static_cast<double>(s.batch * op.heads * s.seq_q) * static_cast<double>(s.seq));
}

Attention Fused::one_kernel(const Attend& a, bool backward) const {
    const RankShape& s = c_.shape;
    const Workload& w = workload();
    Attention op{s.batch, a.heads, s.seq_q, s.seq, s.qk_dim, w.causal, backward, s.storage, true};
    op.generation = flash_generation(w.attention);
    op.value_dim = s.value_dim;
    if (w.window < s.seq && w.window_share > 0) {
        op.window = w.window;
        op.window_share = w.window_share;
    }
    if (op.causal && s.seq_q < s.seq) {
        op.causal = false;
        op.seq_k = s.seq / 2;
        // The first queries of a sequence see less than their window: the mean of all, as without a window half of the keys.
        op.window -= (op.window * (op.window - 1) + s.seq) / (2L * s.seq);
    }
    return op;
}

void Fused::scores_forward(Planner& planner, const Attend& op) const {
    const RankShape& s = c_.shape;
    const Bytes all = scores(op);
    planner.compute("scores", of_heads(c_, op.heads, s.seq_q, s.seq, s.qk_dim));
    planner.compute("softmax", MemoryPass{unmasked_share(workload()) * all, all});
    if (drops_scores()) planner.compute("score_dropout", MemoryPass{all, all + all / s.element().si()});
    planner.compute("values", of_heads(c_, op.heads, s.seq_q, s.value_dim, s.seq));
}

void Fused::scores_backward(Planner& planner, const Attend& op) const {
    const RankShape& s = c_.shape;
    const Bytes all = scores(op);
    planner.compute("values", of_heads(c_, op.heads, s.seq_q, s.seq, s.value_dim));
    planner.compute("values", of_heads(c_, op.heads, s.seq, s.value_dim, s.seq_q));
    if (drops_scores()) planner.compute("score_dropout_backward", MemoryPass{all + all / s.element().si(), all});
    planner.compute("softmax_backward", MemoryPass{2.0 * unmasked_share(workload()) * all, all});
    planner.compute("scores", of_heads(c_, op.heads, s.seq_q, s.qk_dim, s.seq));
    planner.compute("scores", of_heads(c_, op.heads, s.seq, s.qk_dim, s.seq_q));
}

// Keys and values of the whole sequence come to every context-parallel rank; in the backward they come again and their
// gradients go back.
template <typename Work>
void Fused::with_context(Planner& planner, const Attend& op, bool backward, Work work) const {
    const RankShape& s = c_.shape;
    const bool ring = c_.experiment.parallelism.context_exchange == ContextExchange::ring;
    const Bytes all = tensor(static_cast<double>(s.batch * s.seq) * static_cast<double>(op.kv_heads * (s.qk_dim + s.value_dim)));
    const Op collective = backward ? Op(ReduceScatter{2.0 * all}) : Op(AllGather{all});
    const std::string_view name = backward ? "cp_reduce_scatter" : "cp_all_gather";
    if (!ring) planner.collective(name, collective, c_.groups.context);
    overlap(planner, ring, name, collective, c_.groups.context, work);
}

void Fused::forward(Planner& planner, const Attend& op) const {
    with_context(planner, op, false, [&] {
        if (is_plain(workload()))
            scores_forward(planner, op);
        else
            planner.compute("attention", one_kernel(op, false));
    });
}

// Selective recompute runs plain scores again.
void Fused::backward(BackwardPlanners b, const Attend& op) const {
    with_context(b.inputs, op, true, [&] {
        if (!is_plain(workload())) return b.inputs.compute("attention_backward", one_kernel(op, true), 2);
        if (c_.experiment.parallelism.recompute == Recompute::selective) scores_forward(b.inputs, op);
        scores_backward(b.inputs, op);
    });
}

}  // namespace stepcast
