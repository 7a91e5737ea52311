// Operators that a library composes of PyTorch's own, each with a kernel (`runtime.composed`):
// read and written elements of the operator's tensor, and the number of kernels. GELU's steps:
// gelu_steps.h; adapters: adapters.h.
#pragma once

#include "model/block/block_pass.h"

namespace stepcast {

struct Composition {
    double read, written;
    float kernels;
};

// In 16-bit elements that a plain copy moves in the same time, on one H100 in PyTorch 2.11, each
// composition alone (calibrate/measurements/h100/all_passes.csv, 8192 x 4096). Cast to fp32,
// square, mean, root, product, cast back, product with the weights.
inline constexpr Composition norm_ahead{12, 10, 7}, norm_back{28, 23, 17};
// Halves negated and joined, two products with tables, their sum.
inline constexpr Composition rotary_ahead{11.5, 9, 5}, rotary_back{14, 12.5, 9};
// Counted in Transformers 5.17 (integrations/moe.py), the mean of Mixtral, whose weights are fp32,
// and Qwen 3. Of an expert's inner width: absent slots masked, gate, product. Slots to experts:
// gathered, masked. Back: masked, weighted, put in order, added up. An index adds up in the
// backward after a sort.
inline constexpr Composition gate_ahead{8, 5, 4}, gate_back{13, 8, 7}, permute_ahead{2, 2, 4},
    permute_back{3, 2, 6}, unpermute_ahead{7, 4, 6}, unpermute_back{13, 8, 10};

// The softmax of plain attention in fp32, of a score (megatron-core 0.19, fusions/fused_softmax.py:
// forward_torch_softmax): cast, masked in place, softmax, cast back; the backward mirrors it, and
// its softmax reads result and gradient. Counted there, casts to fp32 as below: read are
// 1.5 + 2.5 (with the mask) + 2 + 2 and 1.5 + 4 + 2.5 + 2, written 3 + 2 + 2 + 1 either way.
inline constexpr Composition softmax_ahead{8, 8, 4}, softmax_back{10, 8, 4};

// A cast to fp32 takes 2.27 times as long as a copy, half as much again as its bytes would:
// PyTorch's kernel for two types loads element by element. A cast to 16 bit takes the time of its
// bytes.
inline constexpr Composition to_fp32{1.5, 3, 1};

inline MemoryPass moved(const Composition& by, Bytes tensor) {
    return {by.read * tensor, by.written * tensor};
}

}  // namespace stepcast
