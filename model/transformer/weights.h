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
    friend RankWeights operator*(int count, const RankWeights& w) { return {count * w.dense, count * w.experts}; }
    friend bool operator==(const RankWeights&, const RankWeights&) = default;
};

// What is trained; with adapters those alone.
RankWeights layer_weights(const LayerContext& context, int layer);
// Of a layer that a cut by modules opens: its down projection, and what comes before.
RankWeights rest_weights(const LayerContext& context);
RankWeights opened_weights(const LayerContext& context, int layer);
RankWeights embedding_weights(const LayerContext& context);
// Final norm, and the logits' weights unless they are the embedding's on the same stage.
RankWeights head_weights(const LayerContext& context);
// With adapters all else: without gradients and updates, but sharded and gathered as what is trained is under zero 3.
RankWeights frozen_layer(const LayerContext& context, int layer);
RankWeights frozen_embedding(const LayerContext& context);
RankWeights frozen_head(const LayerContext& context);

}  // namespace stepcast
