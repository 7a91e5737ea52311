#include "sim/costs/expert_layer_law.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "sim/costs/cast_law.h"
#include "sim/costs/gemm_law.h"

namespace stepcast {
namespace {

constexpr double wave_loss = 0.3, corner = 0.4, pass_efficiency = 0.85;
struct ExpertTile {
    std::size_t rows;  // index into expert_tile_rows
    long n;
};
constexpr std::array<ExpertTile, 6> all_tiles{
    {{0, 128}, {0, 256}, {1, 128}, {3, 128}, {2, 128}, {4, 128}}};

constexpr ExpertTile few_tokens{3, 64}, many_tokens{1, 64};  // from Triton's default table
constexpr std::array<ExpertTile, 3> few_rows{{{1, 128}, {2, 128}, {3, 128}}};

std::span<const ExpertTile> tiles_of(const ExpertLayer& layer, const ExpertKernel& kernel) {
    if (kernel.reloads) return few_rows;
    if (!kernel.tabled) return all_tiles;
    return {layer.tokens <= layer.experts ? &few_tokens : &many_tokens, 1};
}

// The grouped product of all experts with rows: [rows, n, k].
struct Widths {
    double n, k;
};
Seconds product_time(const Widths& widths, const ExpertLoad& load, const ExpertLayer& layer,
                     const ExpertKernel& kernel, const Cluster& cluster) {
    const auto [n, k] = widths;
    const FlopsPerSecond per_sm =
        peak(cluster.gpu, layer.dtype) / cluster.gpu.sms * kernel.efficiency;
    const Bytes weights(n * k * layer.weight_bytes),
        rows(load.rows * (k * size_of(layer.dtype).si() + n * 2));
    const double reread =
        kernel.reloads ? 1 - held_by_cache(weights, {.cache = cluster.gpu.l2}) : 0;
    Seconds best(INFINITY);
    for (const ExpertTile& tile : tiles_of(layer, kernel)) {
        const long m = expert_tile_rows[tile.rows];
        const double blocks = load.tiles[tile.rows] * std::ceil(n / real(tile.n)) / cluster.gpu.sms;
        const Flops wave(2.0 * real(m * tile.n) * (k + kernel.k0));
        const Seconds arithmetic = waves_of(blocks, wave_loss) *
                                   (wave / (per_sm * tile_rate(m, tile.n, kernel.tile_reuse)));
        const double reads = load.experts + reread * (load.tiles[tile.rows] - load.experts);
        const Seconds moving =
            (reads * weights + rows) / (cluster.gpu.memory_bandwidth * kernel.traffic);
        best = std::min(best, corner_of(arithmetic, moving, corner));
    }
    return best;
}

}  // namespace

ExpertLoad expert_load(const std::vector<long>& rows_of_experts) {
    ExpertLoad load;
    for (const long rows : rows_of_experts) {
        load.rows += real(rows);
        load.experts += rows > 0 ? 1 : 0;
        for (const std::size_t t : indices_of(expert_tile_rows))
            load.tiles[t] += real((rows + expert_tile_rows[t] - 1) / expert_tile_rows[t]);
    }
    return load;
}

Seconds expert_layer_time(const ExpertLayer& layer, const ExpertKernel& kernel,
                          const Cluster& cluster) {
    const auto product = [&](double n, double k, const ExpertLoad& load) {
        return product_time({n, k}, load, layer, kernel, cluster);
    };
    const auto hidden = real(layer.hidden), ffn = real(layer.ffn);
    const auto tokens = real(layer.tokens);
    Seconds sum;
    for (const ExpertLoad& load : layer.loads) {
        sum += product(2 * ffn, hidden, load) + product(hidden, ffn, load);
        const double passed = kernel.tabled ? tokens * real(layer.top_k) : load.rows;
        const Bytes passes(2 * kernel.passes *
                           (passed * (2 * hidden + 3 * ffn) + 2 * tokens * hidden));
        sum += passes / (cluster.gpu.memory_bandwidth * pass_efficiency);
    }
    const Seconds mean = layer.loads.empty() ? Seconds(0) : sum / real(layer.loads.size());
    return kernel.launch + mean;
}

}  // namespace stepcast
