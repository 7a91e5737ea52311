#include "sim/costs/gemm_tiles.h"

#include <algorithm>
#include <array>

#include "model/base/lists.h"

namespace stepcast {
namespace {

constexpr std::array<Tile, 11> rated_tiles{{{256, 128, &KernelCosts::gemm_tile_256},
                                            {128, 256, &KernelCosts::gemm_tile_256},
                                            {128, 128, &KernelCosts::gemm_tile_128},
                                            {128, 64, &KernelCosts::gemm_tile_64},
                                            {64, 128, &KernelCosts::gemm_tile_64},
                                            {64, 64, &KernelCosts::gemm_tile_32},
                                            {256, 256, &KernelCosts::gemm_tile_wide},
                                            {192, 128, &KernelCosts::gemm_tile_192},
                                            {128, 192, &KernelCosts::gemm_tile_192},
                                            {256, 64, &KernelCosts::gemm_tile_narrow},
                                            {64, 256, &KernelCosts::gemm_tile_narrow}}};
// With operands in registers (Ampere, and RTX cards to this day), tiles are powers of two. From
// shared memory an instruction takes 128 rows and any number of columns, so libraries for Hopper
// and Blackwell's data-centre chips have every tile that is a multiple of 16.
constexpr std::array<Tile, 6> register_tiles{
    {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}}};
constexpr auto shared_tiles = [] {
    constexpr long step = 16, most = 256;
    std::array<Tile, 2 * most / step - 1> tiles{{{128, 128}}};
    std::size_t at = 1;
    for (long n = step; n <= most; n += step)
        if (n != 128) tiles[at++] = {128, n}, tiles[at++] = {n, 128};
    return tiles;
}();

// For kernels with scaled blocks of 128 x 128.
constexpr auto block_tiles = [] {
    constexpr long step = 16, most = 128;
    std::array<Tile, most / step> tiles{};
    for (const std::size_t at : indices_of(tiles))
        tiles[at] = {most, step * static_cast<long>(at + 1)};
    return tiles;
}();

// The size of equal pieces of `whole`, as few as `most` allows, rounded up to whole steps.
long even_piece(long whole) {
    constexpr long step = 32, most = 256;
    return ceil_div(ceil_div(whole, ceil_div(whole, most)), step) * step;
}

}  // namespace

std::span<const Tile> tiles_of(const KernelCosts& costs, bool of_blocks) {
    if (of_blocks) return block_tiles;
    if (costs.gemm_tile_reuse == 0) return rated_tiles;
    return costs.gemm_shared_operands ? std::span<const Tile>(shared_tiles) : register_tiles;
}

Tile even_tile(std::span<const Shape> shapes) {
    long m = 1, n = 1;
    for (const Shape& s : shapes) m = std::max(m, s.m), n = std::max(n, s.n);
    return {even_piece(m), even_piece(n)};
}

}  // namespace stepcast
