#include "sim/gemm_law.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace stepcast {
namespace {

struct Tile {
    long m, n;
    double factor;
};

std::array<Tile, 4> tiles_of(const KernelCosts& kernel) {
    return {{{256, 128, kernel.gemm_tile_256},
             {128, 128, kernel.gemm_tile_128},
             {128, 64, kernel.gemm_tile_64},
             {64, 64, kernel.gemm_tile_32}}};
}

long ceil_div(long a, long b) { return (a + b - 1) / b; }

// One group of the kernel: `count` GEMMs [m,n,k].
struct Shape {
    long m, n, k, count;
};

Seconds arithmetic_time(std::span<const Shape> shapes, Dtype dtype, const Cluster& cluster) {
    const FlopsPerSecond per_sm = peak(cluster.gpu, dtype) / cluster.gpu.sms;
    Seconds best(INFINITY);
    for (const Tile& tile : tiles_of(cluster.kernel)) {
        for (const long split : {1L, 2L, 4L, 8L}) {
            double tile_count = 0, k_sum = 0;  // k_sum: k weighted by tiles, for groups of different k
            for (const Shape& s : shapes) {
                const double tiles = static_cast<double>(ceil_div(s.m, tile.m) * ceil_div(s.n, tile.n) * s.count);
                tile_count += tiles;
                k_sum += tiles * static_cast<double>(s.k);
            }
            if (tile_count == 0) return Seconds(0);
            const double waves = std::ceil(tile_count * static_cast<double>(split) / cluster.gpu.sms);
            const double k = k_sum / tile_count / static_cast<double>(split) + cluster.kernel.gemm_k0;
            const Flops wave(2.0 * static_cast<double>(tile.m * tile.n) * k);
            best = std::min(best, waves * (wave / (per_sm * (cluster.kernel.gemm_efficiency * tile.factor))));
        }
    }
    return best;
}

Seconds traffic_time(std::span<const Shape> shapes, Dtype dtype, const Cluster& cluster) {
    double elements = 0;
    for (const Shape& s : shapes)
        elements += static_cast<double>(s.count) * (static_cast<double>(s.m) * static_cast<double>(s.k) +
                                                    static_cast<double>(s.k) * static_cast<double>(s.n) +
                                                    static_cast<double>(s.m) * static_cast<double>(s.n));
    return elements * size_of(dtype) / (cluster.gpu.memory_bandwidth * cluster.kernel.memory_efficiency);
}

Seconds law_time(std::span<const Shape> shapes, Dtype dtype, const Cluster& cluster) {
    return cluster.kernel.launch +
           std::max(arithmetic_time(shapes, dtype, cluster), traffic_time(shapes, dtype, cluster));
}

}  // namespace

Seconds gemm_law_time(const Gemm& op, const Cluster& cluster) {
    const Shape shape{op.m, op.n, op.k, op.batch};
    return law_time({&shape, 1}, op.dtype, cluster);
}

Seconds grouped_gemm_law_time(const GroupedGemm& op, const Cluster& cluster) {
    std::vector<Shape> shapes;
    for (const long rows : op.rows) {
        if (rows == 0) continue;
        shapes.push_back(op.weight_gradient ? Shape{op.k, op.n, rows, 1} : Shape{rows, op.n, op.k, 1});
    }
    return law_time(shapes, op.dtype, cluster);
}

}  // namespace stepcast
