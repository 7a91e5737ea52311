// The weights of one rank: what its gradients, parameters and optimizer states are sized by. In elements.
#pragma once

#include "model/transformer/layer.h"

namespace stepcast {

// `experts` are replicated over the expert-data group, the rest over the data (x context) group.
struct RankWeights {
    double dense = 0, experts = 0;
    friend RankWeights operator+(const RankWeights& a, const RankWeights& b) { return {a.dense + b.dense, a.experts + b.experts}; }
    RankWeights& operator+=(const RankWeights& o) { return *this = *this + o; }
    friend RankWeights operator*(int count, const RankWeights& w) { return {count * w.dense, count * w.experts}; }
    friend bool operator==(const RankWeights&, const RankWeights&) = default;
};

// Of a unit of the model. With adapters those alone are trained: all else goes without gradients and updates, but under zero 3 is
// sharded and gathered as what is trained is.
struct UnitWeights {
    RankWeights trained, frozen;
};
UnitWeights layer_weights(const LayerContext& context, int layer);
UnitWeights embedding_weights(const LayerContext& context);
// Final norm, and the logits' weights unless they are the embedding's on the same stage.
UnitWeights head_weights(const LayerContext& context);
// What is trained of a layer that a cut by modules opens: its down projection, and what comes before.
RankWeights rest_weights(const LayerContext& context);
RankWeights opened_weights(const LayerContext& context, int layer);

}  // namespace stepcast
