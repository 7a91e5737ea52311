// Per token and layer, without dropout, h hidden, f inner, q / k / v the widths of all queries, keys, values; what
// sequence parallelism splits is "outer", the rest is split over tensor-parallel ranks:
//   attention     norm in h, norm out h (outer); q, k, v; result v' of the attention; plain: softmax of the scores;
//                 flash: one fp32 sum a head. Dropout: its mask (1 byte) and, of plain scores, the dropped scores
//   MLA           instead of q, k, v: latents before and after their norm (outer), q, k, keys and values as projected
//   feed-forward  norm in h, norm out h (outer); first product (2 f gated, else f); activation f. Eager and gated: the
//                 activation and its product with the other half, 2 f, as they are two operations
//   experts       norm in h, norm out h (outer); router in fp32; per slot h (permuted), first product, activation; the
//                 combining weights are multiplied before the second product, so its result is not kept
// For plain attention with dropout, GELU, 16 bit: s b h (34 + 5 a s / h), Korthikanti et al., arXiv 2205.05198, section 4.
// fp8: inputs of matrix products are kept in fp8, all else in 16 bit.
#include "sim/memory/layer_memory.h"

#include <algorithm>

#include "model/transformer/counts.h"

namespace stepcast {
namespace {

double number(long count) { return static_cast<double>(count); }
double inputs_of(const LayerContext& c) { return c.experiment.workload.gated ? 2 : 1; }
// Inner vectors beside the first product and the input of the second.
double eager_copies(const LayerContext& c) { return c.experiment.parallelism.eager && c.experiment.workload.gated ? 1 : 0; }
bool drops(const LayerContext& c) { return c.experiment.workload.dropout > 0; }

double outer_elements(const LayerContext& c) { return number(c.shape.outer_tokens * c.shape.hidden); }
Bytes gemm_input(const LayerContext& c) { return size_of(c.shape.matrix); }  // an element of it, as kept

// The norm before a block, and the dropout mask after it.
Bytes norm_and_mask(const LayerContext& c) {
    const Bytes mask = drops(c) ? Bytes(1) : Bytes(0);
    return outer_elements(c) * (c.shape.element() + gemm_input(c) + mask);
}

double score_elements(const LayerContext& c) {
    const RankShape& s = c.shape;
    return number(s.batch * s.heads) * number(s.seq_q) * number(s.seq + c.experiment.workload.memory);
}
Bytes scores_kept(const LayerContext& c) {
    return score_elements(c) * (drops(c) ? 2.0 * c.shape.element() + Bytes(1) : c.shape.element());
}

// Queries, keys and values as projected.
Bytes projections_kept(const LayerContext& c) {
    const RankShape& s = c.shape;
    const Bytes element = s.element();
    if (c.experiment.workload.attention != AttentionKind::mla)
        return number(s.tokens * (s.heads * s.qk_dim + s.kv_heads * (s.qk_dim + s.value_dim))) * element;
    const Mla& m = c.experiment.workload.mla;
    const double raw = m.q_rank + m.kv_rank + m.rope_dim, normed = m.q_rank + m.kv_rank;
    const double heads = number(s.heads) * number(2 * s.qk_dim + m.nope_dim + s.value_dim);
    return number(s.outer_tokens) * (raw * element + normed * gemm_input(c)) + number(s.tokens) * heads * element;
}

// Keys and values of other context-parallel ranks with their gradients: the next ones round the ring, or all.
Bytes context_work(const LayerContext& c) {
    const Parallelism& p = c.experiment.parallelism;
    if (p.cp == 1) return Bytes(0);
    const RankShape& s = c.shape;
    const Bytes own = number(s.tokens * s.kv_heads * (s.qk_dim + s.value_dim)) * s.element();
    return 2.0 * own * (p.context_exchange == ContextExchange::ring ? 1.0 : p.cp);
}

// Work: gradients of the block's result and input, of the attention's result, queries, keys and values; of plain scores
// before and after the softmax, and what selective recompute makes again.
BlockMemory attention_memory(const LayerContext& c) {
    const RankShape& s = c.shape;
    const bool plain = c.experiment.workload.attention == AttentionKind::plain;
    const bool again = plain && c.experiment.parallelism.recompute == Recompute::selective;
    const Bytes result = number(s.tokens * s.heads * s.value_dim) * s.element();
    const double result_copies = s.matrix == s.storage ? 1 : 1 + gemm_input(c) / s.element();
    BlockMemory block;
    block.kept = norm_and_mask(c) + projections_kept(c) + result_copies * result;
    if (const Mamba& m = c.experiment.workload.mamba; m.heads > 0) {  // gate, x, B, C before and after the convolution
        const double inner = static_cast<double>(m.heads) * m.head_dim, around = inner + 2.0 * m.groups * m.state;
        block.kept += number(s.tokens) * (inner + 2 * around + inner) / c.experiment.parallelism.tp * s.element();
    }
    if (plain && !again) block.kept += scores_kept(c);
    if (!plain) block.kept += number(s.tokens * s.heads) * Bytes(4);
    block.work = 2.0 * s.inner(s.hidden) + result +
                 s.inner(s.heads * s.qk_dim + s.kv_heads * (s.qk_dim + s.value_dim)) + context_work(c);
    if (plain) block.work += 2.0 * score_elements(c) * s.element();
    if (again) block.work += scores_kept(c);
    return block;
}

// Inner vectors of `rows` rows, and beside the backward the gradient of the first product.
BlockMemory inner_memory(const LayerContext& c, double rows, double width) {
    const Bytes element = c.shape.element();
    return {rows * width * ((inputs_of(c) + eager_copies(c)) * element + gemm_input(c)),
            rows * width * inputs_of(c) * element};
}

BlockMemory dense_memory(const LayerContext& c) {
    BlockMemory block = inner_memory(c, number(c.shape.tokens), number(c.shape.ffn));
    block.kept += norm_and_mask(c);
    block.work += 2.0 * c.shape.inner(c.shape.hidden);
    return block;
}

// Slots that the fullest rank receives over the mean.
double imbalance(const LayerContext& c) {
    const Routing& r = c.routing;
    const int ranks = c.experiment.parallelism.ep;
    if (r.counts.empty() || ranks == 1) return 1;
    std::vector<double> received(static_cast<std::size_t>(ranks));
    double sum = 0;
    for (int source = 0; source < r.ranks; ++source)
        for (int expert = 0; expert < r.experts; ++expert) {
            const int slots = r.count(source, expert);
            received[static_cast<std::size_t>(expert / (r.experts / ranks))] += slots;
            sum += slots;
        }
    return *std::max_element(received.begin(), received.end()) * ranks / sum;
}

// An expert that is split over the tensor-parallel ranks sees the slots of all of them; a whole one those of its own.
BlockMemory experts_memory(const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    const Parallelism& p = c.experiment.parallelism;
    const RankShape& s = c.shape;
    const double split = p.expert_tensor_parallel ? p.tp : 1;
    const double routed = p.expert_tensor_parallel ? number(s.tokens) : number(s.tokens) / p.tp;
    const double filled = w.moe.capacity_factor > 0 ? w.moe.capacity_factor : imbalance(c);
    const double rows = routed * w.moe.top_k * filled, width = expert_ffn(w) / split;
    BlockMemory block = inner_memory(c, rows, width);
    block.kept += norm_and_mask(c) + rows * w.hidden * gemm_input(c);
    block.kept += number(s.outer_tokens) * w.moe.experts * Bytes(4 + 4 + 1);  // logits, probabilities, choice
    block.kept += inner_memory(c, number(s.tokens), static_cast<double>(shared_ffn(w)) / p.tp).kept;
    block.work += rows * w.hidden * s.element() + 2.0 * s.inner(s.hidden);
    return block;
}

}  // namespace

Bytes layer_input(const LayerContext& c) { return c.shape.outer(); }

LayerMemory layer_memory(const LayerContext& c, int layer) {
    return {attention_memory(c), has_experts(c.experiment.workload, layer) ? experts_memory(c) : dense_memory(c)};
}

// Work: the embedding's gradient, dense over the vocabulary.
BlockMemory embedding_memory(const LayerContext& c) {
    const Bytes mask = drops(c) ? outer_elements(c) * Bytes(1) : Bytes(0);
    return {mask, number(c.shape.vocab * c.shape.hidden) * c.shape.element()};
}

// The fused loss turns the logits into their gradient in place; step by step it keeps fp32 probabilities, which become
// the gradient, beside the logits or that gradient cast. Eager passes keep the logits, their fp32 copy and its softmax,
// and make the gradient beside them. Work: the gradients of the matrix and of its input, and the input gathered.
BlockMemory head_memory(const LayerContext& c) {
    const RankShape& s = c.shape;
    const double logits = number(s.head_tokens) * number(s.vocab);
    const bool fused = c.experiment.workload.fused_loss, eager = c.experiment.parallelism.eager;
    const Bytes wide(4);
    BlockMemory block;
    block.kept = 2.0 * c.shape.outer() + logits * (fused ? s.element() : eager ? s.element() + 2.0 * wide : wide);
    block.work = number(s.vocab * s.hidden) * s.element() + 2.0 * s.inner(s.hidden);
    if (!fused) block.work += logits * (eager ? wide : s.element());
    return block;
}

std::vector<Matrix> layer_matrices(const LayerContext& c, int layer) {
    const Workload& w = c.experiment.workload;
    const Parallelism& p = c.experiment.parallelism;
    const RankShape& s = c.shape;
    const long inputs = w.gated ? 2 : 1;
    std::vector<Matrix> all{{s.hidden, s.heads * s.value_dim}};
    if (w.attention == AttentionKind::mla) {
        if (w.mla.q_rank > 0) all.push_back({w.mla.q_rank, s.hidden});
        all.push_back({s.heads * s.qk_dim, w.mla.q_rank > 0 ? w.mla.q_rank : s.hidden});
        all.push_back({w.mla.kv_rank + w.mla.rope_dim, s.hidden});
        all.push_back({s.heads * (w.mla.nope_dim + s.value_dim), w.mla.kv_rank});
    } else {
        all.push_back({s.heads * s.qk_dim + s.kv_heads * (s.qk_dim + s.value_dim), s.hidden});
    }
    const auto block = [&](long width) {
        all.push_back({inputs * width, s.hidden});
        all.push_back({s.hidden, width});
    };
    if (!has_experts(w, layer)) {
        block(s.ffn);
        return all;
    }
    block(expert_ffn(w) / (p.expert_tensor_parallel ? p.tp : 1));
    if (shared_ffn(w) > 0) block(shared_ffn(w) / p.tp);
    return all;
}

}  // namespace stepcast
