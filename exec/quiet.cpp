#include "exec/quiet.h"

#include <cmath>

#include <algorithm>

#include <fmt/format.h>

namespace stepcast {

bool accepts(double cpu_share, const QuietLimits& limits) { return cpu_share >= limits.cpu_share; }

bool wants_another(int wanted, int accepted, int taken, Seconds spent, const RetryLimits& limits) {
    if (taken < wanted) return true;
    return accepted < wanted && taken < wanted + limits.extra_steps && spent < limits.wall_time;
}

QuietVerdict judge_quiet(double idle_share, std::span<const double> cpu_shares, const QuietLimits& limits) {
    QuietVerdict verdict;
    if (idle_share < limits.idle_share)
        verdict.warnings.push_back(
            fmt::format("busy: the machine was {:.1f} % idle in the second before the run, "
                        "expected at least {:.0f} %",
                        std::floor(1000 * idle_share) / 10, 100 * limits.idle_share));
    const auto rejected =
        std::count_if(cpu_shares.begin(), cpu_shares.end(), [&](double share) { return !accepts(share, limits); });
    if (!cpu_shares.empty() &&
        static_cast<double>(rejected) > limits.rejected_share * static_cast<double>(cpu_shares.size()))
        verdict.warnings.push_back(
            fmt::format("busy: {} of {} steps had a rank off its core for more than {:.0f} % of "
                        "the time",
                        rejected, cpu_shares.size(), 100 * (1 - limits.cpu_share)));
    verdict.quiet = verdict.warnings.empty();
    return verdict;
}

}  // namespace stepcast
