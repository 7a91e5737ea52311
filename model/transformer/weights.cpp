#include "model/transformer/weights.h"

#include "model/transformer/counts.h"

namespace stepcast {

// Norms and the router are not split over the tensor-parallel ranks.
RankWeights layer_weights(const LayerContext& c, int layer) {
    const Parallelism& p = c.experiment.parallelism;
    const LayerParameters whole = layer_parameters(c.experiment.workload, layer);
    const int expert_split = p.expert_tensor_parallel ? p.tp : 1;
    return {(whole.attention + whole.feed_forward) / p.tp + whole.norms + whole.router,
            whole.experts / p.ep / expert_split};
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
    const Workload& w = c.experiment.workload;
    return {embedding_parameters(w) / c.experiment.parallelism.tp + position_parameters(w), 0};
}

RankWeights head_weights(const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    const bool copied = w.tied && c.experiment.parallelism.pp > 1;
    return {final_norm_parameters(w) +
                (copied ? embedding_parameters(w) : logits_parameters(w)) / c.experiment.parallelism.tp,
            0};
}

}  // namespace stepcast
