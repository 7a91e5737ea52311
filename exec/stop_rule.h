// How well the median of the samples taken so far is known, and whether that is good enough to stop.
#pragma once

#include <span>

namespace stepcast {

inline constexpr int fewest_for_median = 6;  // below, no pair of samples encloses the median with 95 %

// Half the width of the 95 % confidence interval of the median, relative to the median, from order statistics alone: of n
// sorted samples those at (n -+ 1.96 sqrt(n)) / 2 enclose it, whatever their distribution (a normal approximation of the
// binomial one). Infinite below fewest_for_median.
double median_uncertainty(std::span<const double> samples);

}  // namespace stepcast
