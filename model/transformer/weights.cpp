#include "model/transformer/weights.h"

#include "model/transformer/counts.h"

namespace stepcast {

namespace {

bool frozen(const LayerContext& c) { return c.experiment.workload.adapter_rank > 0; }

// Norms, the router and projections to latents are not split over the tensor-parallel ranks.
RankWeights all_weights(const LayerContext& c, int layer) {
    const LayerParameters rank = layer_parameters(c.experiment.workload, c.shape, layer);
    return {rank.dense(), rank.experts / c.experiment.parallelism.ep};
}

RankWeights all_embedding(const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    return {embedding_parameters(w) / c.experiment.parallelism.tp + position_parameters(w), 0};
}

RankWeights all_head(const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    const Parallelism& p = c.experiment.parallelism;
    const bool apart = p.pp > 1 && !traits(p.schedule).ends_meet();  // from the table
    RankWeights weights{final_norm_parameters(w) + (w.tied && apart ? embedding_parameters(w) : logits_parameters(w)) / p.tp, 0};
    if (w.mtp_layers > 0 && apart && !w.tied) weights.dense += embedding_parameters(w) / p.tp;  // the table's copy
    for (int i = 0; i < w.mtp_layers; ++i) {
        weights += all_weights(c, w.layers - 1);
        weights.dense += prediction_parameters(w);
    }
    return weights;
}

}  // namespace

RankWeights layer_weights(const LayerContext& c, int layer) {
    if (!frozen(c)) return all_weights(c, layer);
    return {adapter_parameters(c.experiment.workload) / c.experiment.parallelism.tp, 0};
}
RankWeights embedding_weights(const LayerContext& c) { return frozen(c) ? RankWeights{} : all_embedding(c); }
RankWeights head_weights(const LayerContext& c) { return frozen(c) ? RankWeights{} : all_head(c); }

RankWeights frozen_layer(const LayerContext& c, int layer) { return frozen(c) ? all_weights(c, layer) : RankWeights{}; }
RankWeights frozen_embedding(const LayerContext& c) { return frozen(c) ? all_embedding(c) : RankWeights{}; }
RankWeights frozen_head(const LayerContext& c) { return frozen(c) ? all_head(c) : RankWeights{}; }

RankWeights rest_weights(const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    return {static_cast<double>(w.ffn) * w.hidden / c.experiment.parallelism.tp + (w.linear_bias ? w.hidden : 0), 0};
}

RankWeights opened_weights(const LayerContext& c, int layer) {
    RankWeights weights = layer_weights(c, layer);
    weights.dense -= rest_weights(c).dense;
    return weights;
}

}  // namespace stepcast
