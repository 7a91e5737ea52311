#include "sim/costs/corrections.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace stepcast {
namespace {

// By the logarithm of the abscissa; never empty.
using Points = std::map<double, double>;

double interpolated(const Points& points, double x) {
    const auto above = points.lower_bound(x);
    if (above == points.begin()) return above->second;
    const auto below = std::prev(above);
    if (above == points.end()) return below->second;
    return below->second + (above->second - below->second) * (x - below->first) / (above->first - below->first);
}

}  // namespace

double correction(const std::vector<Correction>& grid, std::string_view op, int ranks, Bytes bytes) {
    std::map<int, Points> by_ranks;
    for (const Correction& point : grid)
        if (point.op == op) by_ranks[point.ranks][std::log(point.bytes.si())] = std::log(point.factor);
    if (by_ranks.empty() || !(bytes > Bytes(0))) return 1;
    Points over_ranks;
    for (const auto& [count, points] : by_ranks)
        over_ranks[std::log(count)] = interpolated(points, std::log(bytes.si()));
    return std::exp(interpolated(over_ranks, std::log(ranks)));
}

}  // namespace stepcast
