#include "sim/costs/expert_layer_law.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/costs/gemm_law.h"

namespace stepcast {
namespace {

constexpr double wave_loss = 0.3, corner = 0.4, pass_efficiency = 0.85;
struct Tile {
    long m, n;
};
constexpr std::array<Tile, 6> tiles{{{128, 128}, {128, 256}, {64, 128}, {16, 128}, {32, 128}, {256, 128}}};

struct Product {
    double n, k;
};

double rounded_rows(const std::vector<long>& rows, long tile) {
    double blocks = 0;
    for (const long r : rows) blocks += static_cast<double>((r + tile - 1) / tile);
    return blocks;
}

struct Load {
    double rows = 0, experts = 0;
};

Load load_of(const std::vector<long>& rows) {
    Load load;
    for (const long r : rows) {
        load.rows += static_cast<double>(r);
        load.experts += r > 0 ? 1 : 0;
    }
    return load;
}

class Layer {
public:
    Layer(const ExpertLayer& layer, const ExpertKernel& kernel, const Cluster& cluster)
        : layer_(layer),
          per_sm_(peak(cluster.gpu, layer.dtype) / cluster.gpu.sms * kernel.efficiency),
          bandwidth_(cluster.gpu.memory_bandwidth * kernel.traffic),
          sms_(cluster.gpu.sms),
          kernel_(kernel) {}

    [[nodiscard]] Seconds product(Product p, const std::vector<long>& rows) const {
        const Load load = load_of(rows);
        const double operand = size_of(layer_.dtype).si();
        const Seconds moving = Bytes(load.experts * p.n * p.k * layer_.weight_bytes +
                                     load.rows * (p.k * operand + p.n * 2)) /
                               bandwidth_;
        Seconds best(INFINITY);
        for (const Tile& tile : tiles) {
            const double blocks = rounded_rows(rows, tile.m) * std::ceil(p.n / static_cast<double>(tile.n)) / sms_;
            const double waves = std::max(1.0, blocks + (std::ceil(blocks) - blocks) * wave_loss);
            const Flops wave(2.0 * static_cast<double>(tile.m * tile.n) * (p.k + kernel_.k0));
            const Seconds arithmetic = waves * (wave / (per_sm_ * tile_rate(tile.m, tile.n, kernel_.tile_reuse)));
            const auto [low, high] = std::minmax(arithmetic, moving);
            best = std::min(best, high * std::pow(1 + std::pow(low / high, 1 / corner), corner));
        }
        return best;
    }

private:
    const ExpertLayer& layer_;
    FlopsPerSecond per_sm_;
    BytesPerSecond bandwidth_;
    double sms_;
    const ExpertKernel& kernel_;
};

}  // namespace

Seconds expert_layer_time(const ExpertLayer& layer, const ExpertKernel& kernel, const Cluster& cluster) {
    const Layer products(layer, kernel, cluster);
    const auto hidden = static_cast<double>(layer.hidden), ffn = static_cast<double>(layer.ffn);
    const auto tokens = static_cast<double>(layer.tokens);
    Seconds sum;
    for (const std::vector<long>& rows : layer.rows) {
        sum += products.product({2 * ffn, hidden}, rows) + products.product({hidden, ffn}, rows);
        const Bytes passes(2 * kernel.passes * (load_of(rows).rows * (2 * hidden + 3 * ffn) + 2 * tokens * hidden));
        sum += passes / (cluster.gpu.memory_bandwidth * pass_efficiency);
    }
    const Seconds mean = layer.rows.empty() ? Seconds(0) : sum / static_cast<double>(layer.rows.size());
    return kernel.launch + tokens * kernel.token + mean;
}

}  // namespace stepcast
