#include "model/transformer/counts.h"

namespace stepcast {
namespace {

double norm_width(Norm norm, double width) { return norm == Norm::layernorm ? 2 * width : width; }

// Projections in and out, and the convolution.
double mamba_matrices(const Workload& w) {
    const Mamba& m = w.mamba;
    const double inner = static_cast<double>(m.heads) * m.head_dim, around = inner + 2.0 * m.groups * m.state;
    return w.hidden * (inner + around + m.heads) + 4 * around + inner * w.hidden;
}

// Weights of the attention matrices, without biases and norms; of a hybrid, of its Mamba block and its share of those.
double attention_matrices(const Workload& w) {
    const double h = w.hidden, heads = w.heads;
    if (w.mamba.heads > 0) {
        Workload attention = w;
        attention.mamba.heads = 0;
        return mamba_matrices(w) + w.mamba.attention * attention_matrices(attention);
    }
    if (w.attention != AttentionKind::mla) return 2 * h * head_dim(w) * (heads + kv_heads(w));
    const Mla& a = w.mla;
    const double query = heads * (a.nope_dim + a.rope_dim);
    const double queries = a.q_rank > 0 ? a.q_rank * (h + query) : h * query;
    const double latent = h * (a.kv_rank + a.rope_dim);
    return queries + latent + a.kv_rank * heads * (a.nope_dim + a.value_dim) + heads * a.value_dim * h;
}

// The projections of MLA have no biases of their own; its output projection is a linear layer like others.
double attention_biases(const Workload& w) {
    if (w.positions == Positions::relative) return 0;
    const double output = w.linear_bias ? w.hidden : 0;
    if (!w.qkv_bias || w.attention == AttentionKind::mla) return output;
    return output + head_dim(w) * (w.heads + 2.0 * kv_heads(w));
}

double latent_norms(const Workload& w) {
    if (w.attention != AttentionKind::mla) return 0;
    return norm_width(w.norm, w.mla.kv_rank) + norm_width(w.norm, w.mla.q_rank);
}

double block_matrices(const Workload& w, double inner) { return (w.gated ? 3 : 2) * inner * w.hidden; }

double block_parameters(const Workload& w, double inner) {
    const double biases = w.linear_bias && inner > 0 ? (w.gated ? 2 : 1) * inner + w.hidden : 0;
    return block_matrices(w, inner) + biases;
}

// Relative positions are projected by a matrix of their own, once for all sequences.
double position_matrix(const Workload& w) {
    return w.positions == Positions::relative ? static_cast<double>(w.hidden) * w.heads * head_dim(w) : 0;
}

// Operations of one token against `seq` keys, and those of the memory: scores (of contents, and of relative positions),
// then values weighted by them; keys and values of the memory are projected again.
double score_flops(const Workload& w) {
    if (w.mamba.heads > 0) {
        Workload attention = w;
        attention.mamba.heads = 0;
        const double inner = static_cast<double>(w.mamba.heads) * w.mamba.head_dim;
        return 4.0 * w.mamba.state * inner + w.mamba.attention * score_flops(attention);
    }
    const double widths =
        w.attention == AttentionKind::mla ? w.mla.nope_dim + w.mla.rope_dim + w.mla.value_dim : 2.0 * head_dim(w);
    const double relative = w.positions == Positions::relative ? head_dim(w) : 0;
    const double again = 2.0 * 2 * w.hidden * kv_heads(w) * head_dim(w) * w.memory / w.seq;
    return 2.0 * (w.seq + w.memory) * w.heads * (widths + relative) + again;
}

}  // namespace

int head_dim(const Workload& w) { return w.head_dim > 0 || w.heads == 0 ? w.head_dim : w.hidden / w.heads; }
int kv_heads(const Workload& w) { return w.kv_heads > 0 ? w.kv_heads : w.heads; }
int expert_ffn(const Workload& w) { return w.moe.ffn > 0 ? w.moe.ffn : w.ffn; }
int shared_ffn(const Workload& w) {
    return w.moe.shared_ffn > 0 ? w.moe.shared_ffn : w.moe.shared_experts * expert_ffn(w);
}
bool has_experts(const Workload& w, int layer) {
    return w.moe.experts > 0 && layer >= w.moe.dense_layers && (layer + 1) % w.moe.interval == 0;
}

LayerParameters layer_parameters(const Workload& w, int layer) {
    LayerParameters p;
    p.attention = attention_matrices(w) + attention_biases(w) + position_matrix(w);
    p.norms = 2 * norm_width(w.norm, w.hidden) + latent_norms(w);
    if (!has_experts(w, layer)) {
        p.feed_forward = block_parameters(w, w.ffn);
        return p;
    }
    p.feed_forward = block_parameters(w, shared_ffn(w));
    p.router = w.moe.experts * (static_cast<double>(w.hidden) + (w.moe.router_bias ? 1 : 0));
    p.experts = w.moe.experts * expert_parameters(w);
    return p;
}

double expert_parameters(const Workload& w) { return block_parameters(w, expert_ffn(w)); }
double embedding_parameters(const Workload& w) { return static_cast<double>(w.vocab) * w.hidden; }
double position_parameters(const Workload& w) {
    const double types = static_cast<double>(w.token_types) * w.hidden;
    if (w.positions == Positions::relative) return types + 2.0 * w.heads * head_dim(w);
    if (w.positions != Positions::learned) return types;
    return types + static_cast<double>(w.max_positions > 0 ? w.max_positions : w.seq) * w.hidden;
}
double final_norm_parameters(const Workload& w) {
    return w.positions == Positions::relative ? 0 : norm_width(w.norm, w.hidden);
}
double logits_parameters(const Workload& w) {
    if (w.head == Head::span) return 2.0 * w.hidden + 2;
    return (w.tied ? 0 : embedding_parameters(w)) + (w.positions == Positions::relative ? w.vocab : 0);
}

ParameterCount count_parameters(const Workload& w) {
    ParameterCount count;
    for (int layer = 0; layer < w.layers; ++layer) {
        const LayerParameters p = layer_parameters(w, layer);
        count.attention += p.attention;
        count.feed_forward += p.feed_forward;
        count.experts += p.experts;
        count.router += p.router;
        count.norms += p.norms;
        if (has_experts(w, layer)) count.active_experts += w.moe.top_k * expert_parameters(w);
    }
    count.norms += final_norm_parameters(w);
    count.embedding = embedding_parameters(w);
    count.positions = position_parameters(w);
    count.logits = logits_parameters(w);
    return count;
}

Flops layer_forward_flops(const Workload& w, int layer) {
    const bool routed = has_experts(w, layer);
    const double block = routed ? block_matrices(w, shared_ffn(w)) + w.moe.top_k * block_matrices(w, expert_ffn(w)) +
                                      static_cast<double>(w.moe.experts) * w.hidden
                                : block_matrices(w, w.ffn);
    return Flops(2 * (attention_matrices(w) + block) + score_flops(w));
}

Flops logits_forward_flops(const Workload& w) {
    return Flops(w.head == Head::span ? 4.0 * w.hidden : 2 * embedding_parameters(w) * w.head_share);
}

Flops forward_flops(const Workload& w, double sequences) {
    Flops token = logits_forward_flops(w);
    for (int layer = 0; layer < w.layers; ++layer) token += layer_forward_flops(w, layer);
    return token * (sequences * w.seq);
}

Flops model_flops(const Workload& w, double sequences) { return 3 * forward_flops(w, sequences); }

}  // namespace stepcast
