// The tiles into which GEMM libraries cut the results of a product.
#pragma once

#include <span>

#include "model/kernel_costs.h"

namespace stepcast {

struct Tile {
    long m, n;
    double KernelCosts::*rate = nullptr;  // none: what its operands leave, tile_rate
};

// One group of the kernel: `count` GEMMs [m,n,k].
struct Shape {
    long m, n, k, count;
};

inline long ceil_div(long a, long b) { return (a + b - 1) / b; }

// Of a library that searches: the law takes the fastest. Kernels that add up scaled blocks of 128 x 128 have their own.
std::span<const Tile> tiles_of(const KernelCosts& costs, bool of_blocks);

// Of a library that goes by the sizes alone: rows and columns (of the largest group) are cut into as few pieces as 256 allows, as alike as
// multiples of 32 can be.
Tile even_tile(std::span<const Shape> shapes);

}  // namespace stepcast
