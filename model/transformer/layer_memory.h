// What one layer or one end of a transformer holds on a rank, tensor by tensor as frameworks keep
// them: tensors kept for the backward, and those that exist only while it runs.
#pragma once

#include <array>
#include <initializer_list>
#include <vector>

#include "model/base/numbers.h"
#include "model/block/operators.h"
#include "model/transformer/layer.h"

namespace stepcast {

// Sizes of tensors, without empty ones.
class TensorSizes {
public:
    TensorSizes() = default;
    TensorSizes(std::initializer_list<Bytes> sizes) { add(sizes); }
    void add(Bytes size) {
        if (size > Bytes(0)) sizes_.at(count_++) = size;
    }
    void add(std::initializer_list<Bytes> sizes) {
        for (const Bytes size : sizes) add(size);
    }
    void add(const TensorSizes& others) {
        for (const Bytes size : others) add(size);
    }
    [[nodiscard]] const Bytes* begin() const { return sizes_.data(); }
    [[nodiscard]] const Bytes* end() const { return sizes_.data() + count_; }
    [[nodiscard]] Bytes sum() const {
        Bytes all;
        for (const Bytes size : *this) all += size;
        return all;
    }

private:
    std::array<Bytes, 12> sizes_{};
    std::size_t count_ = 0;
};

// What one operator keeps for its backward, what its backward makes on top, what selective
// recompute makes again for the backward of the whole block, and what its forward makes on the way
// to its result: one after another, each until the next one is there. The last `for_backward` kept
// tensors are of that kind where nothing is kept.
struct OperatorMemory {
    TensorSizes kept, work, again = {}, passing = {};
    int for_backward = 0;
};
// Of each operator of a block, and what an alternate recompute keeps of it.
struct OperatorMemories {
    std::vector<OperatorMemory> operators;
    std::vector<TensorSizes> kept_by_alternate;
};
OperatorMemories operator_memories(const Block& block, const LayerContext& context);
// One kernel adds up the gradient of queries in fp32 (flash_attn: dq_accum). Of other operators
// nothing.
Bytes query_sums(const Operator& op, const OperatorMemory& of, const LayerContext& context);
// Whether what sequence parallelism gathers for a product stays for its backward, and is not
// gathered again: of PyTorch's DTensors (runtime.weight_shards), whose gather is an operator for
// automatic differentiation, which keeps what the product read
// (torch/distributed/tensor/parallel/style.py: ColwiseParallel; seen in recorded peaks).
bool keeps_gathered(const LayerContext& context);
// Of the residual stream: in fp32 under automatic casting.
Bytes stream_element(const LayerContext& context);
// The slots of experts that this rank computes.
double expert_slots(const LayerContext& context);

// Of a block, one micro-batch: `kept` lasts from the forward to the backward, `work` comes on top
// while the backward of the block runs. Of a stage at some moment: what is kept for later
// backwards, and the work of the running slot.
struct Activations {
    Bytes kept, work;
    [[nodiscard]] Bytes sum() const { return kept + work; }
    friend bool operator==(const Activations&, const Activations&) = default;
};
struct LayerMemory {
    Activations attention, feed_forward;
    // kept if the layer is recomputed: its input, and what an alternate recompute does not make
    // again
    Bytes rerun;
    // Kept between the halves of a split backward for the weight gradients: input and result's
    // gradient of each product (arXiv 2401.10241, table 1). Nothing is recomputed for them.
    Bytes put_off;
    [[nodiscard]] Bytes kept() const { return attention.kept + feed_forward.kept; }
    friend bool operator==(const LayerMemory&, const LayerMemory&) = default;
};

// Without recomputation of whole layers. Selective recompute keeps no scores of attention.
LayerMemory layer_memory(const LayerContext& context, int layer);
Activations embedding_memory(const LayerContext& context);
Activations head_memory(const LayerContext& context);  // final norm, logits, loss
// Of the loss, for a logit: what it keeps for the backward, and what that makes.
struct LossMemory {
    Bytes kept, made;
};
LossMemory loss_memory(const LayerContext& context);
// Elements that it is of: logits, or a row's each (runtime.loss.logits).
double logits_at_once(const LayerContext& context);
// The matrix's, where the forward makes it.
Bytes gradient_of_loss(const LayerContext& context);
// The gradient of the embedding, which is dense over the vocabulary, or of the logits' matrix.
Bytes table_gradient(const LayerContext& context);

// One weight matrix of a layer on a rank; all experts together have one entry.
struct Matrix {
    long out = 0, in = 0;
    [[nodiscard]] double elements() const { return real(out) * real(in); }
    friend auto operator<=>(const Matrix&, const Matrix&) = default;
};
std::vector<Matrix> layer_matrices(const LayerContext& context, int layer);

}  // namespace stepcast
