// A block of a layer, written once: its operators in the order of the forward, over the tensors of one micro-batch on one
// rank. All else follows from this list, each by one pass:
//   kernels of forward and backward              kernels.h: as training libraries fuse them, or one operation by one
//   what automatic differentiation keeps         sim/memory/layer_memory.h
//   parameters and arithmetic                    model/transformer/counts.h
//   recompute, cuts between stages               parts of the list (model/transformer/layer_plans.cpp)
// The backward goes through the list from its end. Where the schedule splits them, gradients of inputs and of weights go
// to plans of their own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/dtype.h"

namespace stepcast {

// A width: of the whole model, and what tensor parallelism leaves a rank of it.
struct Width {
    long whole = 0, rank = 0;
    Width() = default;
    Width(long not_split) : whole(not_split), rank(not_split) {}
    Width(long of_model, long of_rank) : whole(of_model), rank(of_rank) {}
    friend Width operator+(Width a, Width b) { return {a.whole + b.whole, a.rank + b.rank}; }
    friend Width operator*(Width a, long n) { return {a.whole * n, a.rank * n}; }
};

// How tensor parallelism splits a linear layer: not at all, by what it makes, or by what it reads.
enum class Split : std::uint8_t { none, column, row };

// y[tokens, out] = x[tokens, in] W[in, out].
struct Linear {
    std::string_view name;
    long tokens = 0;
    Width out, in;
    Dtype dtype = Dtype::fp16;
    Split split = Split::none;
    bool bias = false;
    bool after_norm = false;      // its input comes in the narrow type: from a norm (Transformer Engine), or cast for another
    bool constant_input = false;  // that needs no gradient
    int adapter_rank = 0;         // of the LoRA matrices next to it (arXiv 2106.09685); 0 = none
};

// A tensor that several operators read, of `elements` on a rank: the backward adds their gradients up.
struct Fork {
    std::string_view sum;  // the name of that
    double elements = 0;
    int readers = 2;
};

// Of `rows` rows, `kernels` side by side; products of this type read its result.
struct Normalize {
    std::string_view name;
    long rows = 0, width = 0;
    Dtype product = Dtype::fp16;
    int kernels = 1;
    bool inner = false;  // within a block: its input is another operator's result
};

// From the type of norms and residuals to that of matrix products, where automatic casting makes them differ.
struct Cast {
    double elements = 0;
};

// Between projections and attention: rotary positions, heads laid out. `bias`: of the projections.
struct HeadLayout {
    long heads = 0, kv_heads = 0;
    bool bias = false;
};

// Scores, softmax, values of `heads` heads, or one kernel for all three.
struct Attend {
    long heads = 0, kv_heads = 0;
    friend bool operator==(const Attend&, const Attend&) = default;
};

// What is before the sequence is put in front of it; and attention over both, with scores of relative positions as well as
// those of contents (Transformer-XL).
struct WithMemory {};
struct AttendRelative {};

// Of `rows` vectors of a width: `inputs` are read for each that is written (two of a gated activation in one kernel).
// `bias`: of the projection before it. `into_product`: a product reads its result next.
struct Activate {
    enum class Rows : std::uint8_t { tokens, expert_slots };
    Rows rows = Rows::tokens;
    Width width;
    int inputs = 1;
    bool bias = false;
    bool into_product = true;
};

// An element-wise pass that reads and writes so many elements. Its backward reads what it read and the gradient of what it
// wrote, and writes the gradient of what it read.
struct Elementwise {
    std::string_view name;
    double read = 0, written = 0;
    double kept = 0;  // of what it reads; the rest can be made again from what others keep
    bool into_product = false;
    double weights = 0;  // of the rank
};

// The scan of a Mamba-2 block (arXiv 2405.21060, sections 6 and 7): this rank's heads and groups.
struct Scan {
    Width heads, groups;
    long width = 0, state = 0;
    [[nodiscard]] Width inner() const { return heads * width; }
    [[nodiscard]] Width around() const { return inner() + groups * (2 * state); }  // x, B, C
};

// A block's result and what came into it, with dropout between. `bias`: of the block's last product.
struct Residual {
    bool bias = false;
};

// Mixture of experts: scores to a choice; slots to where their experts are; one product of all local experts; back, weighted
// and summed; what shared experts made added.
struct Route {};
struct ToExperts {};
struct GroupedLinear {
    std::string_view name, weight_gradient;
    Width out, in;
    Split split = Split::column;  // where tensor parallelism splits an expert
    bool bias = false;
};
struct FromExperts {};
struct AddShared {};

// The ends of the model: rows of the table, positions, dropout; the loss over the logits, or over two scores a token.
struct Embed {};
struct Loss {};
struct SpanLoss {};

using Operator =
    std::variant<Linear, Fork, Normalize, Cast, HeadLayout, Attend, WithMemory, AttendRelative, Activate, Elementwise, Scan, Residual,
                 Route, ToExperts, GroupedLinear, FromExperts, AddShared, Embed, Loss, SpanLoss>;
using Block = std::vector<Operator>;

inline std::string backward_name(std::string_view name) { return std::string(name) + "_backward"; }

}  // namespace stepcast
