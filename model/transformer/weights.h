// The weights of one rank: what its gradients, parameters and optimizer states are sized by. In elements.
#pragma once

#include "model/transformer/layer.h"

namespace stepcast {

// `experts` are replicated over the expert-data group, the rest over the data (x context) group.
struct RankWeights {
    double dense = 0, experts = 0;
    RankWeights& operator+=(const RankWeights& o) {
        dense += o.dense;
        experts += o.experts;
        return *this;
    }
    friend bool operator==(const RankWeights&, const RankWeights&) = default;
};

// With adapters those alone: the others are frozen, and of no group.
RankWeights layer_weights(const LayerContext& context, int layer);
RankWeights frozen_weights(const LayerContext& context, int layer);
double frozen_ends(const LayerContext& context, bool embedding, bool head);
// Of a layer that a cut by modules opens: its down projection, and what comes before.
RankWeights rest_weights(const LayerContext& context);
RankWeights opened_weights(const LayerContext& context, int layer);
RankWeights embedding_weights(const LayerContext& context);
// Final norm, and the logits' weights unless they are the embedding's on the same stage.
RankWeights head_weights(const LayerContext& context);

}  // namespace stepcast
