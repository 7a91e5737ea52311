#include "calibrate/fit_corrections.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "calibrate/fit_tables.h"
#include "calibrate/least_squares.h"

namespace stepcast {
namespace {

// Closer where protocols change, from 256 KiB to 8 MiB.
constexpr std::array knots{512.0, 8192.0, 65536.0, 524288.0, 2097152.0, 33554432.0, 536870912.0};
constexpr double prior_sigma = 0.15, noise = 0.04;

// Huber's loss as a residual: its square grows linearly beyond one standard deviation.
double robust(double residual) {
    const double size = std::abs(residual);
    return size <= 1 ? residual : std::copysign(std::sqrt(2 * size - 1), residual);
}

struct Point {
    double log_bytes = 0, log_ratio = 0;  // measured over predicted
};

double interpolated(const Vector& values, double log_bytes) {
    std::size_t i = 0;
    while (i + 2 < knots.size() && log_bytes > std::log(knots[i + 1])) ++i;
    const double from = std::log(knots[i]), to = std::log(knots[i + 1]);
    const double share = std::clamp((log_bytes - from) / (to - from), 0.0, 1.0);
    return values[i] * (1 - share) + values[i + 1] * share;
}

Vector fit_knots(const std::vector<Point>& points) {
    const auto residuals = [&](const Vector& x) {
        Vector out;
        for (const Point& p : points) out.push_back(robust((interpolated(x, p.log_bytes) - p.log_ratio) / noise));
        for (const double value : x) out.push_back(value / prior_sigma);
        return out;
    };
    const Vector none(knots.size(), 0.0), far(knots.size(), 1.0), near(knots.size(), -1.0);
    return minimise(residuals, points.size() + knots.size(), none, near, far);
}

}  // namespace

std::vector<Correction> fit_corrections(const std::vector<CollectiveRow>& rows, const Cluster& cluster) {
    std::map<std::pair<std::string, int>, std::vector<Point>> groups;
    for (const CollectiveRow& row : rows) {
        const double ratio = row.time / collective_case(row, cluster).predict(cluster);
        groups[{row.op, row.ranks}].push_back({std::log(row.bytes.si()), std::log(ratio)});
    }
    std::vector<Correction> corrections;
    for (const auto& [key, points] : groups) {
        const Vector logs = fit_knots(points);
        for (std::size_t i = 0; i < knots.size(); ++i)
            corrections.push_back({key.first, key.second, Bytes(knots[i]), std::round(std::exp(logs[i]) * 1e3) / 1e3});
    }
    return corrections;
}

}  // namespace stepcast
