#include "model/machine/priors.h"

#include <algorithm>
#include <cmath>

#include "model/machine/generation.h"
#include "model/records/measurements.h"

namespace stepcast {
namespace {

constexpr double most_of_memory = 0.95, most_of_tensor = 0.8, least_gain = 1.01;

// A file that names no multiprocessors leaves 1: nothing can be said of one of them.
bool states_sms(const Gpu& gpu) { return gpu.sms > 1; }
double rate_of_sm(const Gpu& gpu) { return std::max(gpu.peaks[Dtype::fp16], gpu.peaks[Dtype::bf16]).si() / gpu.sms; }
double bandwidth_of_sm(const Gpu& gpu) { return gpu.memory_bandwidth.si() / gpu.sms; }

double mean_rate(const std::vector<Cluster>& machines) {
    double sum = 0;
    for (const Cluster& c : machines) sum += rate_of_sm(c.gpu);
    return sum / static_cast<double>(machines.size());
}

// Efficiencies are those of heads of 128, exponentials of 16 bits included.
void take_exponentials(AttentionKernel& kernel, double times) {
    constexpr double usual_width = 128;
    const double faster = (1 + kernel.width / usual_width) / (1 + times * kernel.width / usual_width);
    kernel.efficiency *= faster;
    kernel.fp8_efficiency *= faster;
    kernel.width *= times;
}

}  // namespace

double rate_distance(const Gpu& a, const Gpu& b) {
    return states_sms(a) && states_sms(b) ? std::abs(std::log(rate_of_sm(a) / rate_of_sm(b))) : 0;
}

AttentionKernel moved(AttentionKernel kernel, const Gpu& from, const Gpu& to) {
    if (!states_sms(to)) return kernel;
    const auto ultra = [](const Gpu& gpu) { return generation(gpu) == Generation::blackwell_ultra; };
    if (ultra(from) != ultra(to) && is_blackwell(from) && is_blackwell(to)) take_exponentials(kernel, ultra(to) ? 0.5 : 2);
    const double faster = rate_of_sm(to) / rate_of_sm(from);
    kernel.fill *= faster;
    kernel.width *= faster;
    const double wider = bandwidth_of_sm(to) / bandwidth_of_sm(from);
    kernel.traffic *= wider;
    kernel.cache *= wider;
    kernel.token = from.sms / static_cast<double>(to.sms) * kernel.token;
    return kernel;
}

ExpertKernel moved(ExpertKernel kernel, const Gpu& from, const Gpu& to) {
    if (!states_sms(to)) return kernel;
    kernel.k0 *= rate_of_sm(to) / rate_of_sm(from);
    kernel.passes *= bandwidth_of_sm(to) / bandwidth_of_sm(from);
    return kernel;
}

CastCosts moved_casts(const std::vector<Cluster>& from, CastCosts casts, const Gpu& to) {
    std::vector<double> rates, of_tensor;
    for (const Cluster& c : from) {
        if (c.kernel.cast.cache_gain > 1)  // fitted
            rates.push_back(c.kernel.cast.efficiency * c.kernel.cast.cache_gain * bandwidth_of_sm(c.gpu));
        if (c.kernel.cast.tensor_efficiency > 0)
            of_tensor.push_back(c.kernel.cast.tensor_efficiency * c.kernel.cast.tensor_gain * bandwidth_of_sm(c.gpu));
    }
    if (rates.empty() || !states_sms(to)) return casts;
    const double share = median(rates) / bandwidth_of_sm(to);
    casts.efficiency = std::min(most_of_memory, share);
    casts.cache_gain = std::max(least_gain, share / casts.efficiency);
    if (of_tensor.empty()) return casts;
    const double tensor = median(of_tensor) / bandwidth_of_sm(to);
    casts.tensor_efficiency = std::min(most_of_tensor, tensor);
    casts.tensor_gain = std::max(least_gain, tensor / casts.tensor_efficiency);
    return casts;
}

double efficiency_ratio(const std::vector<Cluster>& all, const std::vector<Cluster>& near, const Gpu& to) {
    double rates = 0, logs = 0, squares = 0, products = 0;
    const auto n = static_cast<double>(all.size());
    for (const Cluster& c : all) {
        rates += rate_of_sm(c.gpu) / n;
        logs += std::log(c.kernel.gemm_efficiency) / n;
    }
    for (const Cluster& c : all) {
        const double rate = rate_of_sm(c.gpu) - rates;
        squares += rate * rate;
        products += rate * (std::log(c.kernel.gemm_efficiency) - logs);
    }
    if (near.empty() || all.size() < 3 || squares == 0 || !states_sms(to)) return 1;
    return std::exp(products / squares * (rate_of_sm(to) - mean_rate(near)));
}

}  // namespace stepcast
