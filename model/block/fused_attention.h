// plain: scores = Q K^T; one pass for scale, mask and softmax (reads only what a causal mask
// leaves, writes all); dropout reads and writes
//   the scores and writes its mask; then scores V. The backward mirrors this, with two products for
//   each product.
// Other kinds: one kernel, which computes the scores again in the backward. Only this kernel skips
// what a window hides. Context parallel: each rank holds an early and a late part of the sequence,
// so that causal work is even and its queries see half of the keys. Keys and values of the other
// ranks arrive around a ring during the attention, or before it.
#pragma once

#include <cmath>

#include "model/base/numbers.h"
#include "model/block/block_pass.h"
#include "model/block/blocks.h"
#include "model/block/composed.h"

namespace stepcast {

struct FusedAttention : BlockPass {
    // Rotary: queries and keys are read and written, values copied; the backward rotates their
    // gradients back. Plain attention without rotary positions copies the heads into another
    // layout. The backward joins all gradients in one tensor, which the bias gradient sums. Latent:
    // queries are rotated, keys joined from their own part and the shared rotary key, values
    // copied.
    void operator()(const HeadLayout& op) const {
        const Bytes query = s.inner(op.heads * s.qk_dim), value = s.inner(op.heads * s.value_dim);
        if (selects_keys(w)) {
            const Bytes latent = s.inner(latent_key()), queries = s.inner(op.heads * latent_key());
            return planner().compute("rotary", MemoryPass{queries + latent, queries + latent}, 4);
        }
        if (is_latent(w)) {
            const MemoryPass layout{
                query + s.inner(op.heads * w.mla.nope_dim + w.mla.rope_dim) + value,
                2.0 * query + value};
            return planner().compute("rotary", layout, 6);
        }
        const bool rotary = w.positions == Positions::rotary;
        const Bytes all = s.inner((op.heads + 2 * op.kv_heads) * s.qk_dim),
                    turned = s.inner((op.heads + op.kv_heads) * s.qk_dim);
        const bool steps = rotary && composes(*this, Composed::rotary);
        if (steps)
            // queries and keys by themselves
            forward("rotary", moved(rotary_ahead, turned), 2 * rotary_ahead.kernels);
        else if (rotary)
            forward("rotary", MemoryPass{all, all}, 3);
        else if (is_plain())
            forward("head_layout", MemoryPass{value, value});
        if (steps)
            backward("rotary_backward", moved(rotary_back, turned), 2 * rotary_back.kernels);
        else if (rotary)
            backward("rotary_backward", MemoryPass{turned, turned}, 2);
        backward("head_layout_backward", MemoryPass{all, all});
        if (op.bias) column_sum("bias_gradient", all);
    }

    // Every context-parallel rank receives the keys and values of all; in the backward again, and
    // it sends their gradients back. Selective recompute runs the forward again whatever its
    // kernel, with that exchange, which is a part of it (megatron-core 0.8.0 to 0.16.1,
    // transformer/attention.py and multi_latent_attention.py: _checkpointed_attention_forward()
    // around core_attention; nemo-toolkit 1.23.0, modules/common/megatron/attention.py).
    void operator()(const Attend& op) const {
        if (back != nullptr && runs_again(p, RecomputedModule::core_attn))
            FusedAttention{{{&back->inputs, nullptr}, {c}}}(op);
        const bool ring = r.context_exchange == ContextExchange::ring;
        const Bytes all =
            tensor(real(s.batch * s.seq) * real(op.kv_heads * (s.qk_dim + s.value_dim)));
        const Op collective = back != nullptr ? Op(ReduceScatter{2.0 * all}) : Op(AllGather{all});
        const std::string_view name = back != nullptr ? "cp_reduce_scatter" : "cp_all_gather";
        if (!ring) planner().collective(name, collective, c.groups.context);
        planner().overlap(ring, name, collective, c.groups.context,
                          [&] { is_plain() ? scores(op) : one_kernel(op); });
    }

    // The indexer's scores run as flash attention does whose queries and values have half of its
    // width each: the same products, and work on each score that stays on chip. The scores' sums
    // over the heads are written in fp32 and read by the selection. The loss compares them, at the
    // selected keys, with the probabilities of attention summed over its heads, whose scores are
    // made again (Megatron-Core 0.16.0, dsa.py: compute_dsa_indexer_loss with
    // dsa_indexer_use_sparse_loss). Its backward meets the selected keys only.
    void operator()(const Index&) const {
        const Indexer& x = w.indexer;
        const double selected = number(s.tokens) * number(std::min<long>(x.top_k, s.seq));
        const Bytes sums = number(s.tokens) * number(s.seq) / 2 * size_of(Dtype::fp32),
                    chosen = selected * size_of(Dtype::fp32);
        const bool learns = w.adapter_rank == 0;
        if (back != nullptr && learns)
            backward("indexer_scores_backward", scores_of(x.heads, x.head_dim, true, true), 2);
        forward("indexer_scores", scores_of(x.heads, x.head_dim, false, false));
        forward("indexer_selection", MemoryPass{sums, sums + chosen, MemoryPass::Access::rows}, 2);
        if (!learns) return;
        const long wide = selects_keys(w) ? latent_key() : s.qk_dim;
        forward("indexer_target", scores_of(s.heads, wide, true, false));
        if (ahead != nullptr)
            planner().collective("tp_all_reduce", AllReduce{chosen}, c.groups.tensor);
        forward("indexer_loss", MemoryPass{2.0 * chosen, chosen, MemoryPass::Access::rows}, 4);
    }

private:
    [[nodiscard]] long latent_key() const { return w.mla.kv_rank + w.mla.rope_dim; }
    // Products of so many heads' queries with keys of `width`, all or those that are selected.
    [[nodiscard]] Attention scores_of(long heads, long width, bool selected, bool behind) const {
        Attention op{s.batch, heads,  s.seq_q,   s.seq, (width + 1) / 2,
                     true,    behind, s.storage, true};
        op.value_dim = width - op.head_dim;
        if (selected && selects_keys(w)) see_selected(op);
        op.unmeasured = Unmeasured::sparse_attention;
        return op;
    }
    // The first queries have fewer keys than are selected, so take the mean.
    void see_selected(Attention& op) const {
        const double most = w.indexer.top_k, all = number(s.seq);
        op.causal = false;
        op.seq_k = std::lround(most - most * (most - 1) / (2 * all));
    }

    [[nodiscard]] AttentionKind kernel() const { return attention_kernel(c.experiment); }
    [[nodiscard]] bool is_plain() const { return kernel() == AttentionKind::plain; }

    void one_kernel(const Attend& a) const {
        Attention op{s.batch,  a.heads,         s.seq_q,   s.seq, s.qk_dim,
                     w.causal, back != nullptr, s.storage, true};
        // PyTorch's mode of TF32 is one of matrix products; attention in one kernel stays in fp32.
        if (op.dtype == Dtype::tf32) op.dtype = Dtype::fp32;
        op.generation = flash_generation(kernel());
        op.value_dim = s.value_dim;
        if (a.kv_heads < a.heads) op.kv_heads = a.kv_heads;
        if (selects_keys(w)) select(op);
        if (w.window < s.seq && w.window_share > 0) {
            op.window = w.window;
            op.window_share = w.window_share;
        }
        if (op.causal && s.seq_q < s.seq) {
            op.causal = false;
            op.seq_k = s.seq / 2;
            // The first queries of a sequence see less than a window, so take the mean (without a
            // window: half of the keys).
            op.window -= (op.window * (op.window - 1) + s.seq) / (2L * s.seq);
        }
        forward("attention", op);
        backward("attention_backward", op, 2);
    }

    // Each query has keys of its own, so all its heads share them as they are in the latent: the
    // multi-query form of latent attention, in which a key is the latent with the rotary key and a
    // value is the latent (arXiv 2512.02556, section 2.1; sglang, srt/layers/attention/
    // dsa_backend.py calls flash_mla_sparse_fwd so for prefills too). The products that lead there
    // and back have the weights and the arithmetic of those that would make keys and values.
    void select(Attention& op) const {
        op.head_dim = latent_key();
        op.value_dim = w.mla.kv_rank;
        op.kv_heads = 0;
        see_selected(op);
        op.unmeasured = Unmeasured::sparse_attention;
    }

    // A product batched over the heads. Rows of queries, keys and values start at multiples of the
    // head width. If that is no multiple of 8 elements, the libraries behind plain attention do not
    // use tensor cores and the product runs at the fp32 rate. (In BLOOM's search for a split, heads
    // of 150 and 108 make a step 30 to 40 s longer than heads of 112; 12 TFLOP/s.)
    [[nodiscard]] Gemm product(const Attend& op, long m, long n, long k) const {
        const bool aligned = s.qk_dim % 8 == 0 && s.value_dim % 8 == 0;
        return {m, n, k, s.batch * op.heads, aligned ? s.storage : Dtype::fp32};
    }

    // The fused causal softmax reads only the visible scores but writes all.
    void scores(const Attend& op) const {
        const Bytes all = tensor(real(s.batch * op.heads * s.seq_q) * real(s.seq));
        const Bytes with_mask = all + all / s.element().si();
        const double unmasked = w.causal ? 0.5 : 1;
        forward("scores", product(op, s.seq_q, s.seq, s.qk_dim));
        const bool steps = composes(*this, Composed::softmax);
        if (steps)
            forward("softmax", moved(softmax_ahead, all), softmax_ahead.kernels);
        else
            forward("softmax", MemoryPass{unmasked * all, all});
        if (drops_scores()) forward("score_dropout", MemoryPass{all, with_mask});
        forward("values", product(op, s.seq_q, s.value_dim, s.seq));
        backward("values", product(op, s.seq_q, s.seq, s.value_dim));
        backward("values", product(op, s.seq, s.value_dim, s.seq_q));
        if (drops_scores()) backward("score_dropout_backward", MemoryPass{with_mask, all});
        if (steps)
            backward("softmax_backward", moved(softmax_back, all), softmax_back.kernels);
        else
            backward("softmax_backward", MemoryPass{2.0 * unmasked * all, all});
        backward("scores", product(op, s.seq_q, s.qk_dim, s.seq));
        backward("scores", product(op, s.seq, s.qk_dim, s.seq_q));
    }
};

}  // namespace stepcast
