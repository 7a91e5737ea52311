#include "model/transformer/weights.h"

namespace stepcast {
namespace {

double product(long a, long b) { return static_cast<double>(a) * static_cast<double>(b); }

double norm_weights(const Workload& w) { return (w.norm == Norm::layernorm ? 2.0 : 1.0) * w.hidden; }

double attention_weights(const LayerContext& c) {
    const RankShape& s = c.shape;
    const Workload& w = c.experiment.workload;
    const double out = product(s.heads * s.value_dim, s.hidden) + (w.linear_bias ? static_cast<double>(s.hidden) : 0.0);
    if (w.attention != AttentionKind::mla) {
        const long width = (s.heads + 2 * s.kv_heads) * s.qk_dim;
        return product(width, s.hidden) + (w.qkv_bias ? static_cast<double>(width) : 0) + out;
    }
    const Mla& m = w.mla;
    const long query_in = m.q_rank > 0 ? m.q_rank : s.hidden;
    return product(s.hidden, m.q_rank + m.kv_rank + m.rope_dim) + product(query_in, s.heads * s.qk_dim) +
           product(m.kv_rank, s.heads * (m.nope_dim + m.value_dim)) + m.q_rank + m.kv_rank + out;
}

double block_weights(const Workload& w, long width) {
    const double matrices = w.gated ? 3 : 2;
    const double biases = w.linear_bias ? (matrices - 1) * static_cast<double>(width) + static_cast<double>(w.hidden) : 0;
    return matrices * product(w.hidden, width) + biases;
}

}  // namespace

RankWeights layer_weights(const LayerContext& c, int layer) {
    const Workload& w = c.experiment.workload;
    const Parallelism& p = c.experiment.parallelism;
    RankWeights weights;
    weights.dense = attention_weights(c) + 2 * norm_weights(w);
    if (!has_experts(w, layer)) {
        weights.dense += block_weights(w, c.shape.ffn);
        return weights;
    }
    const long expert = w.moe.ffn > 0 ? w.moe.ffn : w.ffn;
    const long shared = w.moe.shared_ffn > 0 ? w.moe.shared_ffn : w.moe.shared_experts * expert;
    weights.dense += product(w.hidden, w.moe.experts) + (w.moe.router_bias ? w.moe.experts : 0);
    if (shared > 0) weights.dense += block_weights(w, (shared + p.tp - 1) / p.tp);
    const long width = p.expert_tensor_parallel ? (expert + p.tp - 1) / p.tp : expert;
    weights.experts = w.moe.experts / static_cast<double>(p.ep) * block_weights(w, width);
    return weights;
}

RankWeights embedding_weights(const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    const int positions = w.positions == Positions::learned ? (w.max_positions > 0 ? w.max_positions : w.seq) : 0;
    return {product(c.shape.vocab, w.hidden) + product(positions, w.hidden), 0};
}

RankWeights head_weights(const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    const bool shared = w.tied && c.experiment.parallelism.pp == 1;
    return {norm_weights(w) + (shared ? 0 : product(c.shape.vocab, w.hidden)), 0};
}

}  // namespace stepcast
