// Decides, from numbers measured elsewhere, whether the machine was quiet enough for valid times,
// and whether there are enough samples.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/base/units.h"

namespace stepcast {

// Whether a sample counts. `cpu_share`: thread CPU time over wall time during the sample, the least
// of all ranks.
bool accepts(double cpu_share);

struct RetryLimits {
    int extra_steps = 20;  // beyond the samples that are asked for
    // no extra sample starts later than this after the first sample
    Seconds wall_time = Seconds(30);
};

struct SamplesTaken {
    int taken = 0, accepted = 0;
    bool vague = false;  // their median
    Seconds spent{};     // since the first
};
// Whether to take another sample, to reach `wanted` accepted ones and a median that is not vague.
bool wants_another(int wanted, const SamplesTaken& so_far, const RetryLimits& limits);

// Reasons to doubt the samples; none on a quiet machine. `idle_share`: idle ticks over the second
// before the run.
std::vector<std::string> quiet_doubts(double idle_share, std::span<const double> cpu_shares);

// Half the width of the 95 % confidence interval of the median, relative to the median, from order
// statistics alone: of n sorted samples those at (n -+ 1.96 sqrt(n)) / 2 enclose it for any
// distribution (a normal approximation of the binomial one). Infinite below fewest_for_median,
// because there no pair of samples encloses the median with 95 % (2 x 2^-6 < 5 %).
inline constexpr int fewest_for_median = 6;
double median_uncertainty(std::span<const double> samples);

}  // namespace stepcast
