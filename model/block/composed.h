// Operators that a library composes of PyTorch's own, each with a kernel (`parallelism.composed`): read and written elements of the
// operator's tensor, as many 16-bit ones as a plain copy moves in the same time, and the number of kernels. One H100 in PyTorch 2.11,
// each composition alone (calibrate/measurements/h100/all_passes.csv); experts counted in Transformers 5.17 (integrations/moe.py).
#pragma once

#include <algorithm>

#include "model/block/block_pass.h"

namespace stepcast {

struct Composition {
    double read, written;
    float kernels;
};

// Cast to fp32, square, mean, root, product, cast back, product with the weights.
inline constexpr Composition norm_ahead{12, 10, 7}, norm_back{28, 23, 17};
// Halves negated and joined, two products with tables, their sum.
inline constexpr Composition rotary_ahead{11.5, 9, 5}, rotary_back{14, 12.5, 9};
// GELU's tanh approximation (unfused.h).
inline constexpr Composition gelu_ahead{10, 8, 8}, gelu_back{17, 11, 15};
// Of an expert's inner width: absent slots masked, gate, product. Slots to experts: gathered, masked. Back: masked, weighted, put in
// order, added up. An index adds up in the backward after a sort.
inline constexpr Composition gate_ahead{8, 5, 4}, gate_back{13, 8, 7}, permute_ahead{2, 2, 4}, permute_back{3, 2, 6},
    unpermute_ahead{7, 4, 6}, unpermute_back{13, 8, 10};

inline bool composes(const BlockPass& pass, Composed op) { return std::ranges::find(pass.p.composed, op) != pass.p.composed.end(); }

inline MemoryPass moved(const Composition& by, Bytes tensor) { return {by.read * tensor, by.written * tensor}; }

}  // namespace stepcast
