// GELU's tanh approximation, 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as PyTorch's
// operators, each a kernel. `matrix` is the size of an element between matrix products, `wide` that
// of powers and tanh, which automatic casting keeps in fp32.
#pragma once

#include "model/block/block_pass.h"

namespace stepcast {

// Passes stated by the bytes that they read and write for each element.
struct ElementPass : BlockPass {
    using PassWriter::backward, PassWriter::forward;
    void forward(std::string_view name, double elements, Bytes read, Bytes written,
                 float kernels = 1) const {
        forward(name, MemoryPass{elements * read, elements * written}, kernels);
    }
    void backward(std::string_view name, double elements, Bytes read, Bytes written,
                  float kernels = 1) const {
        backward(name, MemoryPass{elements * read, elements * written}, kernels);
    }
    void cast(double elements, Bytes from, Bytes to) const {
        if (from != to) forward("cast", elements, from, to);
    }
    void cast_back(double elements, Bytes from, Bytes to) const {
        if (from != to) backward("cast", elements, from, to);
    }
};

struct GeluSteps : ElementPass {
    Bytes matrix, wide;
    GeluSteps(const BlockPass& pass, Bytes narrow, Bytes broad)
        : ElementPass{pass}, matrix(narrow), wide(broad) {}

    // Half of x, cube, factor, sum, factor, tanh, plus one, product.
    void ahead(double inner) const {
        forward("activation", inner, matrix, matrix);
        cast(inner, matrix, wide);
        forward("activation", inner, 2.0 * wide, 2.0 * wide, 2);
        forward("activation", inner, matrix + wide, wide);
        forward("activation", inner, 3.0 * wide, 3.0 * wide, 3);
        forward("activation", inner, matrix + wide, wide);
        cast(inner, wide, matrix);
    }
    // In order: product (gradients of half x and of the rest); tanh; factor; the sum's branch to x;
    // factor; cube (power, factor, product); half; and the sum of the three gradients of x.
    void behind(double inner) const {
        cast_back(inner, matrix, wide);
        backward("activation_backward", inner, 3.0 * wide + matrix, 2.0 * wide, 2);
        cast_back(inner, wide, matrix);
        backward("activation_backward", inner, 2.0 * wide, wide);
        backward("activation_backward", inner, wide, wide);
        cast_back(inner, wide, matrix);
        backward("activation_backward", inner, 5.0 * wide, 4.0 * wide, 4);
        cast_back(inner, wide, matrix);
        backward("activation_backward", inner, 5.0 * matrix, 3.0 * matrix, 3);
    }
};

}  // namespace stepcast
