// A block of a layer, written once as its operators in forward order, over the tensors of one
// micro-batch on one rank. Everything else follows from this list, each by one pass:
//   kernels of forward and backward         kernels.h: fused as in training libraries, or
//                                           operation by operation
//   what automatic differentiation keeps    model/transformer/layer_memory.h
//   parameters and arithmetic               model/transformer/counts.h
//   recompute, cuts between stages          parts of the list (model/transformer/layer_plans.cpp)
// The backward goes through the list from its end. Where the schedule splits the backward,
// gradients of inputs and of weights go to separate plans.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/base/numbers.h"
#include "model/graph/op.h"

namespace stepcast {

inline double number(long count) { return real(count); }

// A width in the whole model and its part on one tensor-parallel rank.
struct Width {
    long whole = 0, rank = 0;
    Width() = default;
    Width(long not_split) : whole(not_split), rank(not_split) {}
    Width(long of_model, long of_rank) : whole(of_model), rank(of_rank) {}
    friend Width operator+(Width a, Width b) { return {a.whole + b.whole, a.rank + b.rank}; }
    friend Width operator*(Width a, long n) { return {a.whole * n, a.rank * n}; }
};

// How tensor parallelism splits a linear layer: not at all, not at all but over the tokens of all
// ranks, by output columns, or by input rows.
enum class Split : std::uint8_t { none, whole, column, row };

// y[tokens, out] = x[tokens, in] W[in, out].
struct Linear {
    std::string_view name;
    long tokens = 0;
    Width out, in;
    Dtype dtype = Dtype::fp16;
    Split split = Split::none;
    bool bias = false;
    // input arrives in the narrow type: from a norm (Transformer Engine) or cast for another
    // product
    bool after_norm = false;
    bool constant_input = false;  // the input needs no gradient
    bool detached = false;        // a tensor of the model, but its gradient goes no further
    bool logits = false;          // the loss plans it where logits come in chunks
    double packed = 0;            // bytes of a frozen weight in few bits; 0 = none
    int adapter_rank = 0;         // of the LoRA matrices beside it (arXiv 2106.09685); 0 = none
};
inline Gemm::Alignment alignment_of(const Linear& l) {
    return std::max(alignment_of(l.in.rank), alignment_of(l.out.rank));
}

// A tensor of `elements` per rank that several operators read. The backward adds their gradients.
struct Fork {
    std::string_view sum;  // name of that sum
    double elements = 0;
    int readers = 2;
};

// A norm over `rows` rows in `kernels` parallel kernels. Products of type `product` read its
// result.
struct Normalize {
    std::string_view name;
    long rows = 0, width = 0;
    Dtype product = Dtype::fp16;
    int kernels = 1;
    bool inner = false;    // inside a block: its input is the result of another operator
    bool shifted = false;  // has a shift in a model whose norms have none
};

// Casts from the type of norms and residuals to that of matrix products, if automatic casting makes
// them differ.
struct Cast {
    double elements = 0;
};

// The layout between projections and attention: rotary positions and order of the heads. `bias`:
// the projections have one.
struct HeadLayout {
    long heads = 0, kv_heads = 0;
    bool bias = false;
};

// Attention of `heads` heads: scores, softmax and values, or one kernel for all three.
struct Attend {
    long heads = 0, kv_heads = 0;
    friend bool operator==(const Attend&, const Attend&) = default;
};

// Transformer-XL: WithMemory puts the memory before the sequence; AttendRelative attends to both,
// by positions and contents.
struct WithMemory {};
struct AttendRelative {};

// An activation of `rows` vectors. Per vector written, `inputs` are read (two for a gated
// activation in one kernel). `bias`: the projection before it has one. `into_product`: a matrix
// product reads its result next.
struct Activate {
    enum class Rows : std::uint8_t { tokens, expert_slots };
    Rows rows = Rows::tokens;
    Width width;
    int inputs = 1;
    bool bias = false;
    bool into_product = true;
};

// An element-wise pass with so many elements read and written. Its backward reads its input and the
// gradient of its output, and writes the gradient of its input.
struct Elementwise {
    std::string_view name;
    double read = 0, written = 0;
    // elements of its input kept for the backward; the rest is recomputed from what others keep
    double kept = 0;
    bool into_product = false;
    double weights = 0;  // on this rank
};

// The scan of a Mamba-2 block (arXiv 2405.21060, sections 6 and 7) over this rank's heads and
// groups.
struct Scan {
    Width heads, groups;
    long width = 0, state = 0;
    [[nodiscard]] Width inner() const { return heads * width; }
    [[nodiscard]] Width around() const { return inner() + groups * (2 * state); }  // x, B, C
};

// The chunked gated delta rule over this rank's heads. Queries and keys are normed in it.
struct DeltaRule {
    Width key_heads, value_heads;
    long key_dim = 0, value_dim = 0;
    // queries, keys and values
    [[nodiscard]] Width around() const {
        return key_heads * (2 * key_dim) + value_heads * value_dim;
    }
    [[nodiscard]] Width inner() const { return value_heads * value_dim; }
};

// The indexer of sparse attention: scores of all earlier keys, those selected, and the loss that
// trains it.
struct Index {};

// Adds a block's input to its result, with dropout between. `bias`: the block's last product has
// one.
struct Residual {
    bool bias = false;
};

// Mixture of experts. Route: scores to choices; ToExperts: slots to their experts' ranks;
// GroupedLinear: one product of all local experts; FromExperts: back, weighted and summed;
// AddShared: adds the result of shared experts.
struct Route {};
struct ToExperts {};
struct GroupedLinear {
    std::string_view name, weight_gradient;
    Width out, in;
    Split split = Split::column;  // how tensor parallelism splits each expert
    bool bias = false;
};
struct FromExperts {};
struct AddShared {};

// The ends of the model: embedding rows, positions and dropout; the loss over the logits, or over
// two scores per token (SpanLoss).
struct Embed {};
struct Loss {};
struct SpanLoss {};

using Operator =
    std::variant<Linear, Fork, Normalize, Cast, HeadLayout, Attend, WithMemory, AttendRelative,
                 Activate, Elementwise, Scan, DeltaRule, Index, Residual, Route, ToExperts,
                 GroupedLinear, FromExperts, AddShared, Embed, Loss, SpanLoss>;
using Block = std::vector<Operator>;

inline std::string backward_name(std::string_view name) { return std::string(name) + "_backward"; }

}  // namespace stepcast
