#include "exec/quiet.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "model/base/numbers.h"

namespace stepcast {
namespace {

// shares of the ticks, of a core, and of the samples
constexpr double least_idle = 0.95, least_cpu = 0.97, most_rejected = 0.30;

}  // namespace

bool accepts(double cpu_share) { return cpu_share >= least_cpu; }

bool wants_another(int wanted, const SamplesTaken& so_far, const RetryLimits& limits) {
    if (so_far.taken < wanted) return true;
    return (so_far.accepted < wanted || so_far.vague) &&
           so_far.taken < wanted + limits.extra_steps && so_far.spent < limits.wall_time;
}

std::vector<std::string> quiet_doubts(double idle_share, std::span<const double> cpu_shares) {
    std::vector<std::string> doubts;
    if (idle_share < least_idle)
        doubts.push_back(
            fmt::format("busy: the machine was {:.1f} % idle in the second before the run, "
                        "expected at least {:.0f} %",
                        std::floor(1000 * idle_share) / 10, 100 * least_idle));
    const auto rejected =
        std::ranges::count_if(cpu_shares, [](double share) { return !accepts(share); });
    if (real(rejected) > most_rejected * real(cpu_shares.size()))
        doubts.push_back(fmt::format(
            "busy: {} of {} steps had a rank off its core for more than {:.0f} % of the time",
            rejected, cpu_shares.size(), 100 * (1 - least_cpu)));
    return doubts;
}

double median_uncertainty(std::span<const double> samples) {
    if (samples.size() < as_index(fewest_for_median)) return INFINITY;
    std::vector<double> sorted(samples.begin(), samples.end());
    std::sort(sorted.begin(), sorted.end());
    const auto count = real(sorted.size());
    const double reach = 0.5 * 1.96 * std::sqrt(count);
    const auto low = static_cast<std::size_t>(std::max(0.0, std::floor(0.5 * count - reach)));
    const auto high =
        std::min(sorted.size() - 1, static_cast<std::size_t>(std::ceil(0.5 * count + reach)));
    const double median = 0.5 * (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]);
    return median > 0 ? 0.5 * (sorted[high] - sorted[low]) / median : INFINITY;
}

}  // namespace stepcast
