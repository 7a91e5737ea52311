#include "sim/costs/attention_law.h"

#include <algorithm>
#include <cmath>

#include "model/base/numbers.h"
#include "sim/costs/cast_law.h"
#include "sim/costs/clock.h"

namespace stepcast {
namespace {

constexpr double backward_products = 2.5;  // relative to the forward's two
constexpr double traffic_efficiency = 0.85;
// how much faster passes outside the kernel are if the L2 holds their operands
constexpr double cache_gain = 2;
constexpr double usual_width = 128;  // the head width that `efficiency` refers to
constexpr double key_tile = 128;     // a window's edges cut a tile of keys on either side

// Pairs of query and key in all blocks of one head, and in its longest block.
struct Pairs {
    double all = 0, longest = 0, blocks = 0;
};

Pairs pairs_in_blocks(const AttentionShape& shape, const AttentionKernel& kernel) {
    const double tile = kernel.tile, queries = real(shape.op.seq_q);
    const auto keys = real(shape.op.seq_k);
    const double blocks = std::ceil(queries / tile);
    if (!shape.op.causal) {
        const double seen = kernel.slides && shape.op.window > 0
                                ? std::min(keys, real(shape.op.window) + key_tile + tile)
                                : keys;
        return {blocks * tile * (seen + kernel.fill), tile * (seen + kernel.fill), blocks};
    }
    const double before = keys - queries;  // keys that every query sees
    const bool slides = kernel.slides && shape.op.window > 0;
    const double window = slides ? real(shape.op.window) + key_tile : queries;
    const double growing = std::min(blocks, window / tile + 1);
    const double seen =
        before * blocks + tile * growing * (growing + 1) / 2 + (blocks - growing) * (window + tile);
    const double most = before + std::min(blocks * tile, window + tile);
    return {tile * (seen + blocks * kernel.fill), tile * (most + kernel.fill), blocks};
}

// Blocks that are alike run in whole waves. Different blocks take as long as the longest if each
// has an SM. If there are more, the SMs share the work and end apart by a part of the longest
// block.
double pairs_on_an_sm(const Pairs& pairs, double heads, bool causal, double corner, double sms) {
    if (!causal) return pairs.longest * waves_of(heads * pairs.blocks / sms, std::min(1.0, corner));
    if (heads * pairs.blocks <= sms) return pairs.longest;
    return std::max(pairs.longest, heads * pairs.all / sms + corner * pairs.longest);
}

double rounded_up(long width) { return 32 * std::ceil(real(width) / 32); }

// Kernels of the second generation run fp32 on the tensor cores as three tf32 products (cutlass's
// OpMultiplyAddFastF32).
bool in_three(const Attention& op, const Cluster& cluster) {
    return op.dtype == Dtype::fp32 && cluster.gpu.peaks[Dtype::tf32] > FlopsPerSecond(0);
}

// Time of the op's products over that of the kernel's 16-bit products, at the same rate of
// exponentials.
double slower_products(const Attention& op, const AttentionKernel& kernel, const Cluster& cluster) {
    if (op.dtype == Dtype::fp8)
        return peak(cluster.gpu, Dtype::bf16) / peak(cluster.gpu, op.dtype) *
               (kernel.efficiency / kernel.fp8_efficiency);
    if (op.generation == FlashGeneration::triton && cluster.kernel.attention_triton > 0)
        return 1 / cluster.kernel.attention_triton;
    return op.generation != FlashGeneration::best || in_three(op, cluster)
               ? 1 / cluster.kernel.attention_v2
               : 1;
}

}  // namespace

bool odd_width(const Attention& op) {
    const bool one_width = op.value_dim == 0 || op.value_dim == op.head_dim;
    return op.head_dim % 16 != 0 ||
           (op.dtype == Dtype::fp8 && one_width && op.head_dim != static_cast<long>(usual_width));
}

namespace {

// Of the kernel's products, before what slows them down.
FlopsPerSecond product_rate(const Attention& op, const AttentionKernel& kernel,
                            const Cluster& cluster) {
    const Dtype dtype = op.dtype == Dtype::fp8 ? Dtype::bf16 : op.dtype;
    const FlopsPerSecond peak_rate =
        in_three(op, cluster) ? cluster.gpu.peaks[Dtype::tf32] / 3 : peak(cluster.gpu, dtype);
    return peak_rate * kernel.efficiency * (op.backward ? cluster.kernel.attention_backward : 1.0) *
           (odd_width(op) ? kernel.odd : 1.0);
}

// Of products and exponentials, without tiles: short sequences ramp up.
Seconds smooth_time(const Attention& op, const AttentionKernel& kernel, const Cluster& cluster,
                    Flops work) {
    return work /
           (product_rate(op, kernel, cluster) / (1 + kernel.ramp / std::max(1.0, real(op.seq_q))) /
            (slower_products(op, kernel, cluster) +
             kernel.width / std::max(1.0, real(op.head_dim))));
}

// Of the pairs that an SM computes in blocks; `times`: products, relative to the forward's two.
Seconds tiled_time(const AttentionShape& shape, const AttentionKernel& kernel,
                   const Cluster& cluster, double times) {
    const Attention& op = shape.op;
    const double on_an_sm =
        pairs_on_an_sm(pairs_in_blocks(shape, kernel), real(op.batch * op.heads), op.causal,
                       kernel.corner, cluster.gpu.sms);
    const double both =
        rounded_up(op.head_dim) + rounded_up(op.value_dim > 0 ? op.value_dim : op.head_dim);
    const double widths = (slower_products(op, kernel, cluster) * both + 2 * kernel.width) /
                          (1 + kernel.width / usual_width);
    return Flops(2 * on_an_sm * widths * times) /
           (product_rate(op, kernel, cluster) / cluster.gpu.sms);
}

}  // namespace

Seconds attention_law_time(const AttentionShape& shape, const AttentionKernel& kernel,
                           const Cluster& cluster, GemmSetting setting) {
    const Attention& op = shape.op;
    if (op.window > 0 && op.window_share < 1) {
        AttentionShape sliding = shape, full = shape;
        sliding.op.window_share = 1;
        full.op.window = 0;
        return op.window_share * attention_law_time(sliding, kernel, cluster, setting) +
               (1 - op.window_share) * attention_law_time(full, kernel, cluster, setting);
    }
    const auto heads = real(op.batch * op.heads);
    const auto queries = real(op.seq_q), keys = real(op.seq_k);
    const auto width = real(op.head_dim);
    const double values = op.value_dim > 0 ? real(op.value_dim) : width;
    const bool eight = op.dtype == Dtype::fp8;
    const double times = op.backward ? backward_products : 1;
    const Flops work(2 * heads * queries * keys * seen_share(op) * (width + values) * times);
    const auto kv_heads = real(op.batch * (shape.kv_heads > 0 ? shape.kv_heads : op.heads));
    const Bytes row = (width + values) * size_of(op.dtype);
    const Bytes operands = (heads * queries + kv_heads * keys) * row * (op.backward ? 2.0 : 1.0);
    Seconds time =
        std::max(kernel.tile == 0 ? smooth_time(op, kernel, cluster, work)
                                  : tiled_time(shape, kernel, cluster, times),
                 operands / (cluster.gpu.memory_bandwidth * cluster.kernel.memory_efficiency));
    const double slowdown = sustained_slowdown(work, op.dtype, operands, time, cluster);
    time = setting == GemmSetting::alone && cluster.power.limit > 0
               ? burst_time(time, slowdown, cluster.power)
               : time * slowdown;
    const Bytes outside = (eight ? kernel.fp8_traffic : 1) *
                          (kernel.traffic * heads * queries + kernel.cache * kv_heads * keys) *
                          (width + values) * size_of(Dtype::bf16);
    const double written = kv_heads / real(op.batch) * width;  // keys of a token
    const double of_block =
        kernel.token_block > 0 ? std::min(1.0, written / kernel.token_block) : 1;
    const Seconds tokens = real(op.batch) * queries * of_block * kernel.token;
    const Bytes kept =
        (heads * queries + kv_heads * keys) * (width + values) * size_of(Dtype::bf16);
    const double warm = 1 + (cache_gain - 1) * held_by_cache(kept, cluster.kernel.cast);
    const Seconds launch = kernel.launch > Seconds(0) ? kernel.launch : cluster.kernel.launch;
    return launch + (eight ? kernel.fp8_launch : Seconds(0)) + time +
           outside / (cluster.gpu.memory_bandwidth * traffic_efficiency * warm) + tokens;
}

}  // namespace stepcast
