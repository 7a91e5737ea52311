// The weights of one rank, in elements: they determine the size of its gradients, parameters and
// optimizer states.
#pragma once

#include "model/transformer/layer.h"

namespace stepcast {

// `experts` are replicated over the expert-data group, `dense` weights over the data (x context)
// group.
struct RankWeights {
    double dense = 0, experts = 0;
    [[nodiscard]] double all() const { return dense + experts; }
    friend RankWeights operator+(const RankWeights& a, const RankWeights& b) {
        return {a.dense + b.dense, a.experts + b.experts};
    }
    friend RankWeights operator-(const RankWeights& a, const RankWeights& b) {
        return {a.dense - b.dense, a.experts - b.experts};
    }
    RankWeights& operator+=(const RankWeights& o) { return *this = *this + o; }
    friend RankWeights operator*(int count, const RankWeights& w) {
        return {count * w.dense, count * w.experts};
    }
    friend bool operator==(const RankWeights&, const RankWeights&) = default;
};

// Elements that a rank holds of a state that is sharded from ZeRO stage `from` on.
// Pipelines keep gradients whole until the step's last backward, and weights gathered after one.
double shared_out(const LayerContext& context, const RankWeights& weights, int from);
// Zero 2 and 3 without a pipeline. With one, gradients are exchanged once a step, and zero 3
// gathers weights for a pass that follows a forward, none for one that follows a backward
// (PyTorch's PipelineStage.backward_maybe_with_nosync: it asks FSDP to reduce and to reshard with
// the last backward alone). No other software combines them.
bool shards_each_pass(const Parallelism& parallelism);

// Weights of a unit of the model. With adapters only these are trained. Frozen weights have no
// gradients and updates, but zero 3 shards and gathers them like trained ones.
struct UnitWeights {
    RankWeights trained, frozen;
};
UnitWeights layer_weights(const LayerContext& context, int layer);
UnitWeights embedding_weights(const LayerContext& context);
// The final norm, and the logits' weights unless the stage already has them as the embedding.
UnitWeights head_weights(const LayerContext& context);
// Trained weights of a layer that a cut by modules splits: rest_weights is its down projection,
// opened_weights what comes before.
RankWeights rest_weights(const LayerContext& context);
RankWeights opened_weights(const LayerContext& context, int layer);

}  // namespace stepcast
