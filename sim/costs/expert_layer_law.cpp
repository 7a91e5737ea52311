#include "sim/costs/expert_layer_law.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "sim/costs/cast_law.h"
#include "sim/costs/gemm_law.h"

namespace stepcast {
namespace {

constexpr double wave_loss = 0.3, corner = 0.4, pass_efficiency = 0.85;
struct Tile {
    std::size_t rows;  // index into expert_tile_rows
    long n;
};
constexpr std::array<Tile, 6> all_tiles{{{0, 128}, {0, 256}, {1, 128}, {3, 128}, {2, 128}, {4, 128}}};

constexpr Tile few_tokens{3, 64}, many_tokens{1, 64};  // of Triton's default table
constexpr std::array<Tile, 3> few_rows{{{1, 128}, {2, 128}, {3, 128}}};

struct Product {
    double n, k;
};

class Layer {
public:
    Layer(const ExpertLayer& layer, const ExpertKernel& kernel, const Cluster& cluster)
        : layer_(layer),
          per_sm_(peak(cluster.gpu, layer.dtype) / cluster.gpu.sms * kernel.efficiency),
          bandwidth_(cluster.gpu.memory_bandwidth * kernel.traffic),
          l2_(cluster.gpu.l2),
          sms_(cluster.gpu.sms),
          kernel_(kernel) {}

    [[nodiscard]] Seconds product(Product p, const ExpertLoad& load) const {
        const double operand = size_of(layer_.dtype).si();
        const Bytes weights(p.n * p.k * layer_.weight_bytes), rows(load.rows * (p.k * operand + p.n * 2));
        const double reread = kernel_.reloads ? 1 - held_by_cache(weights, {.cache = l2_}) : 0;
        Seconds best(INFINITY);
        for (const Tile& tile : tiles()) {
            const long m = expert_tile_rows[tile.rows];
            const double blocks = load.tiles[tile.rows] * std::ceil(p.n / static_cast<double>(tile.n)) / sms_;
            const double waves = std::max(1.0, blocks + (std::ceil(blocks) - blocks) * wave_loss);
            const Flops wave(2.0 * static_cast<double>(m * tile.n) * (p.k + kernel_.k0));
            const Seconds arithmetic = waves * (wave / (per_sm_ * tile_rate(m, tile.n, kernel_.tile_reuse)));
            const double reads = load.experts + reread * (load.tiles[tile.rows] - load.experts);
            const Seconds moving = (reads * weights + rows) / bandwidth_;
            const auto [low, high] = std::minmax(arithmetic, moving);
            best = std::min(best, high * std::pow(1 + std::pow(low / high, 1 / corner), corner));
        }
        return best;
    }

private:
    [[nodiscard]] std::span<const Tile> tiles() const {
        if (kernel_.reloads) return few_rows;
        if (!kernel_.tabled) return all_tiles;
        return {layer_.tokens <= layer_.experts ? &few_tokens : &many_tokens, 1};
    }

    const ExpertLayer& layer_;
    FlopsPerSecond per_sm_;
    BytesPerSecond bandwidth_;
    Bytes l2_;
    double sms_;
    const ExpertKernel& kernel_;
};

}  // namespace

ExpertLoad expert_load(const std::vector<long>& rows_of_experts) {
    ExpertLoad load;
    for (const long rows : rows_of_experts) {
        load.rows += static_cast<double>(rows);
        load.experts += rows > 0 ? 1 : 0;
        for (std::size_t t = 0; t < expert_tile_rows.size(); ++t)
            load.tiles[t] += static_cast<double>((rows + expert_tile_rows[t] - 1) / expert_tile_rows[t]);
    }
    return load;
}

Seconds expert_layer_time(const ExpertLayer& layer, const ExpertKernel& kernel, const Cluster& cluster) {
    const Layer products(layer, kernel, cluster);
    const auto hidden = static_cast<double>(layer.hidden), ffn = static_cast<double>(layer.ffn);
    const auto tokens = static_cast<double>(layer.tokens);
    Seconds sum;
    for (const ExpertLoad& load : layer.loads) {
        sum += products.product({2 * ffn, hidden}, load) + products.product({hidden, ffn}, load);
        const double passed = kernel.tabled ? tokens * static_cast<double>(layer.top_k) : load.rows;
        const Bytes passes(2 * kernel.passes * (passed * (2 * hidden + 3 * ffn) + 2 * tokens * hidden));
        sum += passes / (cluster.gpu.memory_bandwidth * pass_efficiency);
    }
    const Seconds mean = layer.loads.empty() ? Seconds(0) : sum / static_cast<double>(layer.loads.size());
    return kernel.launch + mean;
}

}  // namespace stepcast
