#include "model/transformer/weights.h"

#include "model/transformer/counts.h"

namespace stepcast {

namespace {

bool frozen(const LayerContext& c) { return c.experiment.workload.adapter_rank > 0; }

// A and B next to the projections of queries, keys and values, and to the attention's output.
double adapter_weights(const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    const double h = w.hidden, heads = w.heads, width = static_cast<double>(c.shape.qk_dim);
    const double queries = heads * width, keys = kv_heads(w) * width;
    const double values = heads * static_cast<double>(c.shape.value_dim);
    return w.adapter_rank * (h + queries + 2 * keys + values + h) / c.experiment.parallelism.tp;
}

// Norms and the router are not split over the tensor-parallel ranks.
RankWeights all_weights(const LayerContext& c, int layer) {
    const Parallelism& p = c.experiment.parallelism;
    const LayerParameters whole = layer_parameters(c.experiment.workload, layer);
    const int expert_split = p.expert_tensor_parallel ? p.tp : 1;
    return {(whole.attention + whole.feed_forward) / p.tp + whole.norms + whole.router,
            whole.experts / p.ep / expert_split};
}

}  // namespace

RankWeights layer_weights(const LayerContext& c, int layer) {
    return frozen(c) ? RankWeights{adapter_weights(c), 0} : all_weights(c, layer);
}

RankWeights frozen_weights(const LayerContext& c, int layer) {
    return frozen(c) ? all_weights(c, layer) : RankWeights{};
}

double frozen_ends(const LayerContext& c, bool embedding, bool head) {
    if (!frozen(c)) return 0;
    const Workload& w = c.experiment.workload;
    return ((embedding ? embedding_parameters(w) : 0) + (head ? embedding_parameters(w) : 0)) /
           c.experiment.parallelism.tp;
}

RankWeights rest_weights(const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    return {static_cast<double>(w.ffn) * w.hidden / c.experiment.parallelism.tp + (w.linear_bias ? w.hidden : 0), 0};
}

RankWeights opened_weights(const LayerContext& c, int layer) {
    RankWeights weights = layer_weights(c, layer);
    weights.dense -= rest_weights(c).dense;
    return weights;
}

RankWeights embedding_weights(const LayerContext& c) {
    if (frozen(c)) return {};
    const Workload& w = c.experiment.workload;
    return {embedding_parameters(w) / c.experiment.parallelism.tp + position_parameters(w), 0};
}

RankWeights head_weights(const LayerContext& c) {
    if (frozen(c)) return {};
    const Workload& w = c.experiment.workload;
    const Parallelism& p = c.experiment.parallelism;
    const bool copied = w.tied && p.pp > 1;
    RankWeights weights{final_norm_parameters(w) + (copied ? embedding_parameters(w) : logits_parameters(w)) / p.tp, 0};
    if (w.mtp_layers > 0 && p.pp > 1 && !w.tied) weights.dense += embedding_parameters(w) / p.tp;  // the table's copy
    for (int i = 0; i < w.mtp_layers; ++i) {
        weights += layer_weights(c, w.layers - 1);
        weights.dense += prediction_parameters(w);
    }
    return weights;
}

}  // namespace stepcast
