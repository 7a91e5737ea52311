//   plain: scores = Q K^T; scale, mask and softmax (reads only what a causal mask leaves, writes all); dropout reads and
//   writes one and writes its mask; then scores V. Backward mirrors it: two products for each of the two, dropout, softmax.
//   Else one kernel, which computes the scores again in the backward. Only that one leaves out what a window hides.
// Context parallel: causal work is spread evenly (each rank holds an early and a late part of the sequence), so a rank's
// queries see half of the keys; keys and values of the others come round a ring during the attention, or before it.
#pragma once

#include "model/block/block_pass.h"
#include "model/block/blocks.h"

namespace stepcast {

struct FusedAttention : BlockPass {
    // Rotary: queries and keys are read and written, values copied; backward: their gradients are turned back. Plain attention
    // without rotary positions lays the heads out anew. All gradients are put side by side; the bias sums them.
    // Latent: queries are turned, keys put together from their own part and the shared rotary key, values copied.
    void operator()(const HeadLayout& op) const {
        const Bytes query = s.inner(op.heads * s.qk_dim), value = s.inner(op.heads * s.value_dim);
        if (w.attention == AttentionKind::mla) {
            const MemoryPass layout{query + s.inner(op.heads * w.mla.nope_dim + w.mla.rope_dim) + value, 2.0 * query + value};
            return planner().compute("rotary", layout, 6);
        }
        const bool rotary = w.positions == Positions::rotary;
        const Bytes all = s.inner((op.heads + 2 * op.kv_heads) * s.qk_dim), turned = s.inner((op.heads + op.kv_heads) * s.qk_dim);
        if (rotary)
            forward("rotary", MemoryPass{all, all}, 3);
        else if (is_plain())
            forward("head_layout", MemoryPass{value, value});
        if (rotary) backward("rotary_backward", MemoryPass{turned, turned}, 2);
        backward("head_layout_backward", MemoryPass{all, all});
        if (op.bias) backward("bias_gradient", MemoryPass{all, Bytes(0)});
    }

    // Keys and values of the whole sequence come to every context-parallel rank; in the backward they come again and their
    // gradients go back.
    void operator()(const Attend& op) const {
        const bool ring = p.context_exchange == ContextExchange::ring;
        const Bytes all = tensor(static_cast<double>(s.batch * s.seq) * static_cast<double>(op.kv_heads * (s.qk_dim + s.value_dim)));
        const Op collective = back != nullptr ? Op(ReduceScatter{2.0 * all}) : Op(AllGather{all});
        const std::string_view name = back != nullptr ? "cp_reduce_scatter" : "cp_all_gather";
        if (!ring) planner().collective(name, collective, c.groups.context);
        overlap(planner(), ring, name, collective, c.groups.context, [&] { is_plain() ? scores(op) : one_kernel(op); });
    }

private:
    [[nodiscard]] bool is_plain() const { return w.attention == AttentionKind::plain; }

    void one_kernel(const Attend& a) const {
        Attention op{s.batch, a.heads, s.seq_q, s.seq, s.qk_dim, w.causal, back != nullptr, s.storage, true};
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
        forward("attention", op);
        backward("attention_backward", op, 2);
    }

    // A product of the batch over the heads. Rows of queries, keys and values begin at multiples of a head's width; where those are
    // no multiples of 8 elements the libraries that plain attention calls leave the tensor cores: the product runs at the rate of fp32.
    // (BLOOM's search for a split: heads of 150 and of 108 take 30 to 40 s more of a step than those of 112, 12 TFLOP/s.)
    [[nodiscard]] Gemm product(const Attend& op, long m, long n, long k) const {
        const bool aligned = s.qk_dim % 8 == 0 && s.value_dim % 8 == 0;
        return {m, n, k, s.batch * op.heads, aligned ? s.storage : Dtype::fp32};
    }

    // The fused causal softmax reads only the scores that are seen and writes all. Selective recompute runs them again.
    void scores(const Attend& op) const {
        const Bytes all = tensor(static_cast<double>(s.batch * op.heads * s.seq_q) * static_cast<double>(s.seq));
        const Bytes with_mask = all + all / s.element().si();
        const double unmasked = w.causal ? 0.5 : 1;
        if (ahead != nullptr || p.recompute == Recompute::selective) {
            planner().compute("scores", product(op, s.seq_q, s.seq, s.qk_dim));
            planner().compute("softmax", MemoryPass{unmasked * all, all});
            if (drops_scores()) planner().compute("score_dropout", MemoryPass{all, with_mask});
            planner().compute("values", product(op, s.seq_q, s.value_dim, s.seq));
        }
        backward("values", product(op, s.seq_q, s.seq, s.value_dim));
        backward("values", product(op, s.seq, s.value_dim, s.seq_q));
        if (drops_scores()) backward("score_dropout_backward", MemoryPass{with_mask, all});
        backward("softmax_backward", MemoryPass{2.0 * unmasked * all, all});
        backward("scores", product(op, s.seq_q, s.qk_dim, s.seq));
        backward("scores", product(op, s.seq, s.qk_dim, s.seq_q));
    }
};

}  // namespace stepcast
