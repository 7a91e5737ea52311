// The tiles into which GEMM libraries cut the results of a product.
#pragma once

#include <span>

#include "model/kernel_costs.h"

namespace stepcast {

struct Tile {
    long m, n;
    double KernelCosts::*rate = nullptr;  // nullptr: tile_rate() alone decides
};

// One group of the kernel: `count` GEMMs [m,n,k].
struct Shape {
    long m, n, k, count;
};

inline long ceil_div(long a, long b) { return (a + b - 1) / b; }

// The tiles among which a library searches; the law takes the fastest. Kernels with scaled blocks
// of 128 x 128 have their own.
std::span<const Tile> tiles_of(const KernelCosts& costs, bool of_blocks);

// The tile of a library that goes by the sizes alone: it cuts rows and columns (of the largest
// group) into as few pieces of at most 256 as it can, as equal as multiples of 32 can be.
Tile even_tile(std::span<const Shape> shapes);

}  // namespace stepcast
