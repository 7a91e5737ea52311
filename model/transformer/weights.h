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
    RankWeights& operator+=(const RankWeights& o) { return *this = *this + o; }
    friend RankWeights operator*(int count, const RankWeights& w) {
        return {count * w.dense, count * w.experts};
    }
    friend bool operator==(const RankWeights&, const RankWeights&) = default;
};

// Elements that a rank holds of a state that is sharded from ZeRO stage `from` on.
double shared_out(const LayerContext& context, const RankWeights& weights, int from);

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
