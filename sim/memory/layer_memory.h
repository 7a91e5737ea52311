// What one layer or end of a transformer holds on a rank: tensors that wait for the backward, and those that live only
// while it runs. Tensor by tensor as frameworks keep them; computes no duration.
#pragma once

#include <vector>

#include "model/transformer/layer.h"

namespace stepcast {

// For one micro-batch. kept: from the forward until the backward; work: in addition while the backward of the block runs.
struct BlockMemory {
    Bytes kept, work;
    friend bool operator==(const BlockMemory&, const BlockMemory&) = default;
};
struct LayerMemory {
    BlockMemory attention, feed_forward;
    Bytes rerun;  // kept where the layer runs again: its input, and what an alternate recompute does not make again
    // Between the halves of a split backward: what the weight gradients read, of each product its input and its result's
    // gradient (arXiv 2401.10241, table 1). Nothing is computed again for them.
    Bytes put_off;
    [[nodiscard]] Bytes kept() const { return attention.kept + feed_forward.kept; }
    friend bool operator==(const LayerMemory&, const LayerMemory&) = default;
};

// As it is without recompute of layers, and what stays with it; selective recompute keeps no attention scores.
LayerMemory layer_memory(const LayerContext& context, int layer);
BlockMemory embedding_memory(const LayerContext& context);
BlockMemory head_memory(const LayerContext& context);  // final norm, logits, loss

// The weight matrices of a layer on a rank, one entry for all experts.
struct Matrix {
    long out = 0, in = 0;
    [[nodiscard]] double elements() const { return static_cast<double>(out) * static_cast<double>(in); }
    friend auto operator<=>(const Matrix&, const Matrix&) = default;
};
std::vector<Matrix> layer_matrices(const LayerContext& context, int layer);

}  // namespace stepcast
