#include "model/transformer/weights.h"

#include "model/base/numbers.h"
#include "model/transformer/counts.h"
#include "model/transformer/schedule.h"

namespace stepcast {
namespace {

UnitWeights unit_weights(const LayerContext& c, const RankWeights& all, double adapters) {
    return c.experiment.workload.adapter_rank > 0 ? UnitWeights{{adapters, 0}, all}
                                                  : UnitWeights{all, {}};
}

// Tensor-parallel ranks do not split norms, the router or projections to latents.
RankWeights all_weights(const LayerContext& c, int layer) {
    const ParameterCount rank = layer_parameters(c.experiment.workload, c.shape, layer);
    return {rank.dense(), rank.experts / c.experiment.parallelism.ep};
}

}  // namespace

bool shards_each_pass(const Parallelism& p) { return p.zero >= 2 && p.pp == 1; }

double shared_out(const LayerContext& c, const RankWeights& weights, int from) {
    const Parallelism& p = c.experiment.parallelism;
    if (p.zero < from || (from >= 2 && !shards_each_pass(p))) return weights.all();
    return weights.dense / c.groups.shard.size() + weights.experts / c.groups.expert_shard.size();
}

UnitWeights layer_weights(const LayerContext& c, int layer) {
    return unit_weights(
        c, all_weights(c, layer),
        adapter_parameters(c.experiment.workload, layer, c.shape.fused_projections) /
            c.experiment.parallelism.tp);
}

UnitWeights embedding_weights(const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    return unit_weights(
        c, {embedding_parameters(w) / c.experiment.parallelism.tp + position_parameters(w), 0}, 0);
}

UnitWeights head_weights(const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    const Parallelism& p = c.experiment.parallelism;
    // on another stage than the embedding table
    const bool apart = ends_apart(p);
    RankWeights weights{
        final_norm_parameters(w) +
            (w.tied && apart ? embedding_parameters(w) : logits_parameters(w)) / p.tp,
        0};
    // a copy of the table
    if (w.mtp_layers > 0 && apart && !w.tied) weights.dense += embedding_parameters(w) / p.tp;
    for (int i = 0; i < w.mtp_layers; ++i) {
        weights += all_weights(c, w.layers - 1);
        weights.dense += prediction_parameters(w);
    }
    return unit_weights(c, weights, 0);
}

RankWeights rest_weights(const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    return {real(w.ffn) * w.hidden / c.experiment.parallelism.tp + (w.linear_bias ? w.hidden : 0),
            0};
}

RankWeights opened_weights(const LayerContext& c, int layer) {
    RankWeights weights = layer_weights(c, layer).trained;
    weights.dense -= rest_weights(c).dense;
    return weights;
}

}  // namespace stepcast
