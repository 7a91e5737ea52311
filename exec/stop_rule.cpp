#include "exec/execute.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace stepcast {

double median_uncertainty(std::span<const double> samples) {
    if (samples.size() < static_cast<std::size_t>(fewest_for_median)) return INFINITY;
    std::vector<double> sorted(samples.begin(), samples.end());
    std::sort(sorted.begin(), sorted.end());
    const auto count = static_cast<double>(sorted.size());
    const double reach = 0.5 * 1.96 * std::sqrt(count);
    const auto low = static_cast<std::size_t>(std::max(0.0, std::floor(0.5 * count - reach)));
    const auto high = std::min(sorted.size() - 1, static_cast<std::size_t>(std::ceil(0.5 * count + reach)));
    const double median = 0.5 * (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]);
    return median > 0 ? 0.5 * (sorted[high] - sorted[low]) / median : INFINITY;
}

}  // namespace stepcast
