// Muon (Keller Jordan, 2024): the momentum of each matrix of a layer is orthogonalized by five
// steps of Newton-Schulz, X = a X + (b X X^T + c (X X^T)^2) X, before it is added to the weights.
// All else (embeddings, logits, norms, biases) is updated by Adam. Source: DeepSpeed 0.19.8,
// runtime/zero/muon/original_muon.py; megatron-core 0.16.1, optimizer/muon.py (a tensor-parallel
// rank's part by itself: muon_tp_mode = "blockwise"). Modules that predict further tokens count as
// Adam's.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "model/transformer/layer.h"

namespace stepcast {

// The matrices of a rank's layers. From zero 1 on each data-parallel rank updates whole matrices,
// dealt out from the largest on, back and forth over the ranks (megatron-core 0.16.1,
// optimizer/layer_wise_optimizer.py: shard_params).
class MuonMatrices {
public:
    void add_layer(const LayerContext& context, int layer);

    // Of the rank that gets most.
    struct Update {
        std::vector<std::pair<Gemm, int>> products;  // and how often each
        double elements = 0;
    };
    [[nodiscard]] Update update(const LayerContext& context) const;

private:
    // smaller and larger side; how many of the size there are
    using Counts = std::map<std::pair<long, long>, int>;
    static void deal(const Counts& counts, int ranks, Counts& own);

    Counts dense_, experts_;
};

}  // namespace stepcast
