#include "measured/transfer.h"

#include <algorithm>
#include <cmath>

#include <boost/math/statistics/linear_regression.hpp>

#include "measured/nearest.h"
#include "measured/priors.h"
#include "model/base/numbers.h"
#include "model/machine/generation.h"

namespace stepcast {
namespace {

constexpr double most_of_memory = 0.95, most_of_tensor = 0.8, least_gain = 1.01,
                 bound_by_memory = 2;

// A file that does not state the number of SMs leaves 1, so rates per SM are unknown.
bool states_sms(const Gpu& gpu) { return gpu.sms > 1; }
double rate_of_sm(const Gpu& gpu) {
    return std::max(gpu.peaks[Dtype::fp16], gpu.peaks[Dtype::bf16]).si() / gpu.sms;
}
double rate_of_sm(const Gpu& gpu, Dtype dtype) {
    return dtype == Dtype::bf16 ? rate_of_sm(gpu) : gpu.peaks[dtype].si() / gpu.sms;
}
double operations_a_cycle(const Gpu& gpu) {
    constexpr double slowest_clock = 1.35e9;
    return std::exp2(std::floor(std::log2(rate_of_sm(gpu) / slowest_clock)));
}
double clock_of(const Gpu& gpu) { return rate_of_sm(gpu) / operations_a_cycle(gpu); }
double bandwidth_of_sm(const Gpu& gpu) { return gpu.memory_bandwidth.si() / gpu.sms; }

// Time of a pass relative to its time at the memory's rate: bytes wait for the memory and for the
// SM.
double time_of_passes(const Gpu& gpu) {
    // bytes/s that an SM copies, on all measured devices (notes/kernel-laws.md)
    constexpr double copied = 38e9;
    return 1 + bandwidth_of_sm(gpu) / copied;
}

// The straight line of least squares through points of different x.
struct Line {
    double at_zero = 0, slope = 0;
};
Line line_through(const std::vector<double>& x, const std::vector<double>& y) {
    const auto [at_zero, slope] = boost::math::statistics::simple_ordinary_least_squares(x, y);
    return {at_zero, slope};
}

// Efficiencies refer to heads of 128, exponentials included. With fewer widths of exponentials,
// products take a larger share of the time, up to nearly the whole peak.
void take_exponentials(AttentionKernel& kernel, double times) {
    constexpr double usual_width = 128;
    const double faster =
        (1 + kernel.width / usual_width) / (1 + times * kernel.width / usual_width);
    for (double* share : {&kernel.efficiency, &kernel.fp8_efficiency})
        *share = std::min(std::max(most_of_rate, *share), *share * faster);
    kernel.width *= times;
}

// Exponentials take the same cycles on all SMs of the maker with generations, except Blackwell
// Ultra with half. In head widths they thus scale with operations per cycle. For other makers it is
// only known that slower SMs have fewer widths.
double exponentials_ratio(const Gpu& from, const Gpu& to) {
    const auto ultra = [](const Gpu& gpu) {
        return generation(gpu) == Generation::blackwell_ultra;
    };
    const double halved = ultra(from) == ultra(to) ? 1 : ultra(to) ? 0.5 : 2;
    return halved * operations_a_cycle(to) / operations_a_cycle(from);
}

}  // namespace

bool same_sms(const Gpu& a, const Gpu& b) {
    return states_sms(a) && states_sms(b) && operations_a_cycle(a) == operations_a_cycle(b);
}

double launch_ratio(const Gpu& from, const Gpu& to) {
    if (!states_sms(from) || !states_sms(to) || same_sms(from, to)) return 1;
    return clock_of(from) / clock_of(to);
}

double launch_ratio(const std::vector<Cluster>& from, const Gpu& to) {
    return median_over(from, [&](const Cluster& c) { return launch_ratio(c.gpu, to); }).value();
}

double rate_distance(const Gpu& a, const Gpu& b) {
    return states_sms(a) && states_sms(b) ? std::abs(std::log(rate_of_sm(a) / rate_of_sm(b))) : 0;
}

AttentionKernel moved(AttentionKernel kernel, const Gpu& from, const Gpu& to) {
    if (!states_sms(to)) return kernel;
    const double faster = rate_of_sm(to) / rate_of_sm(from),
                 passes = time_of_passes(to) / time_of_passes(from);
    if (has_generations(from) && has_generations(to))
        take_exponentials(kernel, exponentials_ratio(from, to));
    else
        kernel.width *= faster;
    kernel.fill *= faster;
    kernel.traffic *= passes;
    kernel.cache *= passes;
    kernel.token = from.sms / real(to.sms) * kernel.token;
    kernel.launch = launch_ratio(from, to) * kernel.launch;
    return kernel;
}

ExpertKernel moved(ExpertKernel kernel, const Gpu& from, const Gpu& to) {
    if (!states_sms(to)) return kernel;
    kernel.k0 *= rate_of_sm(to) / rate_of_sm(from);
    kernel.passes *= bandwidth_of_sm(to) / bandwidth_of_sm(from);
    kernel.launch = launch_ratio(from, to) * kernel.launch;
    return kernel;
}

CastCosts moved_casts(const std::vector<Cluster>& from, CastCosts casts, const Gpu& to) {
    // the nearest machines are memory-bound: no better share of the memory is known
    const bool bound = casts.cache_gain > bound_by_memory;
    const double most = bound ? casts.efficiency : most_of_memory,
                 tensor_most = bound ? casts.tensor_efficiency : most_of_tensor;
    const auto rate = median_over(from, [](const Cluster& c) {
        const CastCosts& cast = c.kernel.cast;
        // fitted
        return when(cast.cache_gain > 1,
                    cast.efficiency * cast.cache_gain * bandwidth_of_sm(c.gpu));
    });
    const auto of_tensor = median_over(from, [](const Cluster& c) {
        const CastCosts& cast = c.kernel.cast;
        return when(cast.tensor_efficiency > 0,
                    cast.tensor_efficiency * cast.tensor_gain * bandwidth_of_sm(c.gpu));
    });
    if (!rate || !states_sms(to)) return casts;
    const double share = *rate / bandwidth_of_sm(to);
    casts.efficiency = std::min(most, share);
    casts.cache_gain = std::max(least_gain, share / casts.efficiency);
    if (!of_tensor) return casts;
    const double tensor = *of_tensor / bandwidth_of_sm(to);
    casts.tensor_efficiency = std::min(tensor_most, tensor);
    casts.tensor_gain = std::max(least_gain, tensor / casts.tensor_efficiency);
    return casts;
}

double efficiency_ratio(const std::vector<Cluster>& all, const std::vector<Cluster>& near,
                        const Gpu& to, Dtype dtype) {
    std::vector<double> rates, times;  // of an SM; relative to the datasheet's
    for (const Cluster& c : all)
        for (const Dtype d : {Dtype::bf16, Dtype::fp8, Dtype::fp4}) {
            const double efficiency = d == Dtype::bf16 ? c.kernel.gemm_efficiency
                                                       : c.kernel.of_narrow(d, false).efficiency;
            if (rate_of_sm(c.gpu, d) > 0 && efficiency > 0)
                rates.push_back(rate_of_sm(c.gpu, d)), times.push_back(1 / efficiency);
        }
    const auto from = median_over(near, [&](const Cluster& c) {
        return when(rate_of_sm(c.gpu, dtype) > 0, rate_of_sm(c.gpu, dtype));
    });
    if (!from || rates.size() < 3 || !states_sms(to)) return 1;
    const Line line = line_through(rates, times);
    return (line.at_zero + line.slope * *from) /
           (line.at_zero + line.slope * rate_of_sm(to, dtype));
}

double traffic_ratio(const std::vector<Cluster>& all, const std::vector<Cluster>& near,
                     const Gpu& to) {
    if (near.empty() || all.size() < 3 || !states_sms(to)) return 1;
    const auto size = [](const Gpu& gpu) { return std::log(bandwidth_of_sm(gpu)); };
    std::vector<double> sizes, shares;  // logarithms of bandwidth per SM and of the share
    for (const Cluster& c : all) {
        sizes.push_back(size(c.gpu));
        shares.push_back(std::log(c.kernel.gemm_traffic_efficiency));
    }
    double of_near = 0;
    for (const Cluster& c : near) of_near += size(c.gpu) / real(near.size());
    return std::exp(line_through(sizes, shares).slope * (size(to) - of_near));
}

double slower_sms(const std::vector<Cluster>& near, const Gpu& to) {
    const auto ratio = median_over(near, [&](const Cluster& c) {
        return when(states_sms(c.gpu) && states_sms(to), rate_of_sm(c.gpu) / rate_of_sm(to));
    });
    return ratio.value_or(1);
}

double reuse_ratio(const std::vector<Cluster>& near, const Gpu& to) {
    const auto ratio = median_over(near, [&](const Cluster& c) {
        return when(!c.kernel.gemm_shared_operands && states_sms(c.gpu),
                    operations_a_cycle(to) / operations_a_cycle(c.gpu));
    });
    return states_sms(to) ? ratio.value_or(1) : 1;
}

}  // namespace stepcast
