#include "sim/costs/gemm_law.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "model/base/numbers.h"
#include "model/machine/generation.h"
#include "sim/costs/clock.h"
#include "sim/costs/gemm_tiles.h"

namespace stepcast {
namespace {

constexpr std::array splits{1L, 2L, 3L, 4L, 6L, 8L};
constexpr double least_split_k = 64;

// The constants of the law that depend on the format of the operands.
struct Format {
    double efficiency, fill, tile_reuse, wave_loss;
    bool splits = false;  // libraries cut products of 16 bits and more along k
    double written = 1;   // how many times the results' memory time counts
    // the share by which few rows beyond the last whole 128 lengthen the loop over k
    double remainder = 0;
};

// Equal for all measured devices. Fitted for each device alone (notes/kernel-laws.md): 1.7 to 2.2
// on five, 1.5 to 1.8 on H100 and H200.
constexpr double written_apart = 1.8, hopper_remainder = 1.6;
// From one kernel's end to the next one's start on a stream, with nothing between: an empty kernel
// replayed on an H200 (calibrate/measurements/h200/launch.csv).
constexpr Seconds next_kernel(0.86e-6);
// Fitted for each device alone: 0.27 to 0.37 on seven of eight devices, 0.47 on A100.
constexpr double held_by_l2 = 0.3;

struct Kernel {
    std::span<const Shape> shapes;
    Dtype dtype;
    bool accumulate;
    double rate;  // relative to the law's
    GemmSetting setting;
    double in_step;  // the factor in `rate` that stands for a step
    bool scaled_blocks = false;
    Gemm::Layout layout = Gemm::Layout::nt;
};

// Bytes through the memory: operands in and results out once; accumulated fp32 results in and out.
struct Traffic {
    Bytes activations, weights, results, partial_results;
    [[nodiscard]] Bytes all() const { return activations + weights + results; }
};

Traffic traffic_of(const Kernel& kernel) {
    double activations = 0, weights = 0, results = 0;
    for (const Shape& s : kernel.shapes) {
        const auto m = real(s.m), n = real(s.n), k = real(s.k);
        activations += real(s.count) * m * k;
        weights += real(s.count) * k * n;
        results += real(s.count) * m * n;
    }
    const Bytes fp32_results = results * size_of(Dtype::fp32), element = size_of(kernel.dtype);
    return {
        activations * element, weights * element,
        kernel.accumulate ? 2 * fp32_results : results * size_of(between_products(kernel.dtype)),
        fp32_results};
}

// How much longer the memory takes for consecutive rows of so many elements. If all rows begin at
// the same memory channel, few channels are busy at a time ("partition camping").
double camping(double row, Bytes element, const Cluster& cluster) {
    const Bytes period = cluster.gpu.memory_interleave;
    if (period == Bytes(0) || std::fmod((row * element).si(), period.si()) != 0) return 1;
    return 1 / cluster.kernel.gemm_camping;
}

// A benchmark reads the same activations in every repeat, and what the L2 still holds of them does
// not come from memory. It takes weights from several copies in turn, and in a step other kernels
// come between. Results that fit the L2 leave it in an order without camping.
Bytes memory_bytes(const Kernel& kernel, const Traffic& traffic, const Format& format,
                   const Cluster& cluster) {
    if (kernel.shapes.empty()) return {};
    const Bytes element = size_of(kernel.dtype), l2 = cluster.gpu.l2;
    const auto& [m, n, k, count] = kernel.shapes.front();
    const bool again = kernel.setting != GemmSetting::step && !is_narrow(kernel.dtype);
    const double held =
        again ? held_by_l2 * std::min(1.0, l2 / (traffic.activations + traffic.results)) : 0;
    const Bytes beyond = std::max(Bytes(0), traffic.results - l2);
    const Bytes result_element =
        kernel.accumulate ? size_of(Dtype::fp32) : size_of(between_products(kernel.dtype));
    const double inner = real(k), columns = real(n), rows = real(m);
    const double a = camping(kernel.layout == Gemm::Layout::tn ? rows : inner, element, cluster);
    const double b = camping(kernel.layout == Gemm::Layout::nt ? inner : columns, element, cluster);
    const double c = camping(columns, result_element, cluster);
    const Bytes all = a * traffic.activations + b * traffic.weights +
                      format.written * (traffic.results + (c - 1) * beyond);
    return all - held * a * traffic.activations;
}

// Fewer than 96 rows beyond the last whole block of 128 lengthen the k loop. One such block of many
// costs little.
double remainder_of(const Kernel& kernel, double loss) {
    constexpr long rows = 128, enough = 96;
    double last = 0, blocks = 0;
    for (const Shape& s : kernel.shapes) {
        if (s.m % rows > 0 && s.m % rows < enough) last += real(s.count);
        blocks += real(s.count * ceil_div(s.m, rows));
    }
    return blocks > 0 ? 1 + loss * last / blocks : 1;
}

// The number of tiles of all groups, and their mean k weighted by tiles.
struct GemmTiling {
    double count = 0, mean_k = 0;
};

GemmTiling tiling_of(std::span<const Shape> shapes, const Tile& tile) {
    double count = 0, k_sum = 0;
    for (const Shape& s : shapes) {
        const auto tiles = real(ceil_div(s.m, tile.m) * ceil_div(s.n, tile.n) * s.count);
        count += tiles;
        k_sum += tiles * real(s.k);
    }
    return {count, count > 0 ? k_sum / count : 0};
}

// Tiles read both operands again and again, and what no cache holds comes from memory each time.
// The loss grows with the geometric mean of the operands. Libraries that visit tiles in blocks do
// not show it.
double reloaded(const Kernel& kernel, const KernelCosts& costs) {
    if (costs.gemm_reload == 0) return 1;
    double most = 1;
    for (const Shape& s : kernel.shapes)
        most = std::max(most, std::sqrt(real(s.m) * real(s.n)) * real(s.k));
    const Bytes operand = most * size_of(kernel.dtype);
    return 1 + costs.gemm_reload * std::max(0.0, 1 - costs.gemm_reload_cache / operand);
}

// Filling the pipeline of the k loop takes a fixed time, which is more elements of k the faster the
// arithmetic is.
double fill_of(const Gpu& gpu, const KernelCosts& costs, Dtype dtype) {
    return gpu.peaks[Dtype::fp16] > FlopsPerSecond(0)
               ? costs.gemm_k0 * (peak(gpu, dtype) / gpu.peaks[Dtype::fp16])
               : costs.gemm_k0;
}

Format format_of(const Kernel& kernel, const Cluster& cluster) {
    const KernelCosts& costs = cluster.kernel;
    if (is_narrow(kernel.dtype)) {
        const NarrowGemm& narrow = costs.of_narrow(kernel.dtype, kernel.scaled_blocks);
        const bool apart = kernel.scaled_blocks && costs.gemm_shared_operands;
        if (narrow.efficiency > 0)
            return {.efficiency = narrow.efficiency,
                    .fill = narrow.k0,
                    .tile_reuse = narrow.tile_reuse,
                    .wave_loss = narrow.wave_loss,
                    .written = apart ? written_apart : 1,
                    .remainder = apart && !is_blackwell(cluster.gpu) ? hopper_remainder : 0};
    }
    // no tile is slower for lack of reuse, and waves are whole
    const bool even = costs.gemm_even_tiles;
    return {costs.gemm_efficiency, fill_of(cluster.gpu, costs, kernel.dtype),
            even ? 0 : costs.gemm_tile_reuse, even ? 1 : costs.gemm_wave_loss, true};
}

Flops work_of(const Kernel& kernel) {
    double products = 0;
    for (const Shape& s : kernel.shapes)
        products += real(s.count) * real(s.m) * real(s.n) * real(s.k);
    return Flops(2 * products);
}

// The time at the clock of the setting, from the time at full clock. What a step loses lets no chip
// rest: it draws as much as alone.
Seconds at_clock(Seconds full, const Kernel& kernel, const Traffic& traffic,
                 const Cluster& cluster) {
    const double slowdown = sustained_slowdown(work_of(kernel), kernel.dtype, traffic.all(),
                                               kernel.in_step * full, cluster);
    if (kernel.setting != GemmSetting::alone) return full * slowdown;
    if (cluster.power.limit > 0 && !cluster.power.in_rates)
        return burst_time(full, slowdown, cluster.power);
    return full /
           (1 + cluster.kernel.gemm_boost * std::exp(-(full / cluster.kernel.gemm_boost_time)));
}

Seconds law_time(const Kernel& kernel, const Cluster& cluster) {
    const KernelCosts& costs = cluster.kernel;
    const Format format = format_of(kernel, cluster);
    const Tile even = even_tile(kernel.shapes);
    const FlopsPerSecond per_sm =
        peak(cluster.gpu, kernel.dtype) / cluster.gpu.sms * format.efficiency *
        (kernel.rate * (kernel.accumulate ? costs.gemm_accumulate : 1.0) / reloaded(kernel, costs));
    const BytesPerSecond bandwidth = cluster.gpu.memory_bandwidth * costs.gemm_traffic_efficiency;
    const Traffic traffic = traffic_of(kernel);
    const Bytes moved = memory_bytes(kernel, traffic, format, cluster);
    const double loop = remainder_of(kernel, format.remainder);
    Seconds best(INFINITY);
    for (const Tile& tile :
         costs.gemm_even_tiles ? std::span(&even, 1) : tiles_of(costs, format.remainder > 0)) {
        const double share =
            (tile.rate ? costs.*tile.rate : 1.0) * tile_rate(tile.m, tile.n, format.tile_reuse);
        if (share == 0) continue;
        const GemmTiling tiling = tiling_of(kernel.shapes, tile);
        if (tiling.count == 0) return costs.launch;
        const FlopsPerSecond rate = per_sm * share;
        for (const long s : splits) {
            const auto split = real(s);
            if (s > 1 && (!format.splits || tiling.mean_k / split < least_split_k)) break;
            const double waves = waves_of(tiling.count * split / cluster.gpu.sms, format.wave_loss);
            const Flops wave(2.0 * real(tile.m * tile.n) *
                             (loop * tiling.mean_k / split + format.fill));
            const Seconds arithmetic = waves * (wave / rate);
            const Bytes partial =
                s > 1 ? split * costs.gemm_split_traffic * traffic.partial_results : Bytes(0);
            const Seconds moving = (moved + partial) / bandwidth;
            const Seconds extra = s > 1 ? costs.gemm_split : Seconds(0);
            if (std::max(arithmetic, moving) + extra >= best) continue;
            best = std::min(best, corner_of(arithmetic, moving, costs.gemm_corner) + extra);
        }
    }
    const Seconds time = costs.launch + at_clock(best, kernel, traffic, cluster);
    return kernel.setting == GemmSetting::step ? time
                                               : std::max(costs.call_ahead, costs.event + time);
}

// In a step tensor cores run at the clock that the power limit leaves; fp32 without tensor cores
// does not reach the limit. Narrow formats add scales to the operands. Their casts are passes of
// their own.
double rate_in_step(Dtype dtype, const KernelCosts& kernel) {
    if (dtype == Dtype::fp32) return 1;
    return kernel.training_gemm * (is_narrow(dtype) ? kernel.training_fp8 : 1.0);
}

Kernel kernel_of(std::span<const Shape> shapes, Dtype dtype, bool accumulate,
                 const Cluster& cluster, GemmSetting setting) {
    const double in_step = setting == GemmSetting::step ? rate_in_step(dtype, cluster.kernel) : 1.0;
    return {shapes, dtype, accumulate, in_step, setting, in_step};
}

// Rows that begin between multiples of 16 bytes shut out the tensor memory accelerator, rows
// between multiples of 4 bytes asynchronous copies as well (CUDA C++ programming guide). fp32
// products on the CUDA cores use neither.
double alignment_rate(const Gemm& op, const KernelCosts& kernel) {
    if (op.alignment == Gemm::Alignment::full || op.dtype == Dtype::fp32) return 1;
    const Bytes between = (op.alignment == Gemm::Alignment::even ? 2.0 : 1.0) * size_of(op.dtype);
    return kernel.gemm_unaligned * (between < Bytes(4) ? kernel.gemm_odd : 1.0);
}

double rate_of(const Gemm& op, const KernelCosts& kernel) {
    const double layout = op.layout == Gemm::Layout::nn   ? kernel.gemm_nn
                          : op.layout == Gemm::Layout::tn ? kernel.gemm_tn
                                                          : 1.0;
    return layout * alignment_rate(op, kernel) *
           (op.dtype == Dtype::fp32 ? kernel.gemm_fp32 : 1.0) *
           (op.batch > 1 ? kernel.batched_gemm : 1.0);
}

// Types that run on the same tensor cores.
bool alike_types(Dtype a, Dtype b) {
    const auto sixteen = [](Dtype x) { return x == Dtype::fp16 || x == Dtype::bf16; };
    return a == b || (sixteen(a) && sixteen(b));
}

// What the measured shapes near `op` say that the law is wrong by there: the mean logarithm of
// measured over law, weighted by exp(-d^2 / (2 reach^2)) with d the distance of the logarithms to
// base 2 of m, n and k. Far from all of them the law stands. The factor of a step is not in it:
// points are of sweeps. Judged by leaving each of 282 shapes of an H200 out: errors of 6.1 % become
// 2.8 (reach 0.5: 2.9, 1: 3.4); fp8 7.0 becomes 4.6.
double measured_near(const Gemm& op, const Cluster& cluster) {
    constexpr double reach = 0.8, of_the_law = 0.1, least = 1e-3;
    const std::vector<GemmPoint>& points =
        op.accumulate ? cluster.kernel.gemm_near_accumulated : cluster.kernel.gemm_near;
    if (op.batch > 1 || op.alignment != Gemm::Alignment::full) return 1;
    const auto squared = [](long a, long b) { return std::pow(std::log2(real(a) / real(b)), 2); };
    double weights = of_the_law, sum = 0;
    for (const GemmPoint& p : points) {
        if (!alike_types(p.dtype, op.dtype)) continue;
        const double weight = std::exp(
            -(squared(p.m, op.m) + squared(p.n, op.n) + squared(p.k, op.k)) / (2 * reach * reach));
        if (weight < least) continue;
        const Shape shape{p.m, p.n, p.k, 1};
        Kernel kernel{{&shape, 1}, p.dtype, op.accumulate, 1, GemmSetting::step, 1};
        if (p.dtype == Dtype::fp32) kernel.rate = cluster.kernel.gemm_fp32;
        weights += weight;
        sum += weight * std::log(p.time / law_time(kernel, cluster));
    }
    return std::exp(sum / weights);
}

}  // namespace

double tile_rate(long m, long n, double reuse) {
    const double more = 1.0 / real(m) + 1.0 / real(n) - 3.0 / 256;
    return 1 / (1 + reuse * std::max(0.0, more));
}

double waves_of(double blocks_per_sm, double loss) {
    return std::max(1.0, blocks_per_sm + (std::ceil(blocks_per_sm) - blocks_per_sm) * loss);
}

Seconds corner_of(Seconds a, Seconds b, double corner) {
    if (corner < 0.02) return std::max(a, b);
    const auto [low, high] = std::minmax(a, b);
    return high * std::pow(1 + std::pow(low / high, 1 / corner), corner);
}

Seconds gemm_law_time(const Gemm& op, const Cluster& cluster, GemmSetting setting,
                      bool scaled_blocks) {
    const Shape shape{op.m, op.n, op.k, op.batch};
    Kernel kernel = kernel_of({&shape, 1}, op.dtype, op.accumulate, cluster, setting);
    kernel.rate *= rate_of(op, cluster.kernel);
    kernel.scaled_blocks = scaled_blocks;
    kernel.layout = op.layout;
    const Seconds time = law_time(kernel, cluster);
    return setting == GemmSetting::step ? measured_near(op, cluster) * time : time;
}

Seconds grouped_gemm_law_time(const GroupedGemm& op, const Cluster& cluster, GemmSetting setting) {
    const KernelCosts& costs = cluster.kernel;
    const bool slow_call = costs.grouped_gemm < 1;
    std::vector<Shape> shapes;
    Seconds one_by_one;
    for (const long rows : op.rows) {
        if (rows == 0) continue;
        shapes.push_back(op.weight_gradient ? Shape{op.k, op.n, rows, 1}
                                            : Shape{rows, op.n, op.k, 1});
        const auto& [m, n, k, count] = shapes.back();
        if (slow_call) one_by_one += gemm_law_time(Gemm{m, n, k, 1, op.dtype}, cluster, setting);
    }
    Kernel kernel = kernel_of(shapes, op.dtype, false, cluster, setting);
    const auto count = real(shapes.size());
    Seconds apart = one_by_one;
    if (slow_call && costs.grouped_spread > 0 && !shapes.empty()) {
        const Seconds next = std::min(costs.launch, next_kernel),
                      in_turn = one_by_one - count * (costs.launch - next),
                      filled = law_time(kernel, cluster) - costs.launch;
        const Seconds spread =
            in_turn + costs.grouped_spread * std::min(Seconds(0), filled - in_turn);
        apart = std::min(apart, costs.launch + std::max(spread, count * cluster.host.call));
    }
    kernel.rate *= costs.grouped_gemm;
    const double followers = real(op.kernels) * count;
    const Seconds together = law_time(kernel, cluster);
    return (slow_call ? std::min(together, apart) : together) +
           followers * (costs.launch + cluster.host.call);
}

}  // namespace stepcast
