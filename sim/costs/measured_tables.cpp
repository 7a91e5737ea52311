#include "sim/costs/measured_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

#include "model/base/errors.h"
#include "model/base/numbers.h"

namespace stepcast {
namespace {

double square(double x) { return x * x; }

double log_ratio(long a, long b) { return std::log(real(a) / real(b)); }

double flops(long m, long n, long k) { return 2.0 * real(m) * real(n) * real(k); }

}  // namespace

Seconds interpolate(const Curve& curve, Bytes bytes) {
    if (curve.empty()) throw std::logic_error("interpolate: empty curve");
    if (bytes <= curve.front().bytes || curve.size() == 1) return curve.front().time;
    auto upper = std::lower_bound(curve.begin(), curve.end(), bytes,
                                  [](const CurvePoint& p, Bytes b) { return p.bytes < b; });
    if (upper == curve.end()) --upper;
    const CurvePoint &a = *(upper - 1), &b = *upper;
    return a.time + (bytes - a.bytes) / (b.bytes - a.bytes) * (b.time - a.time);
}

Seconds gemm_table_time(std::span<const GemmPoint> table, long m, long n, long k, Dtype dtype) {
    struct Near {
        double distance = INFINITY, log_rate = 0;
    };
    std::array<Near, 4> nearest;
    for (const GemmPoint& p : table) {
        if (p.dtype != dtype) continue;
        const double distance =
            square(log_ratio(m, p.m)) + square(log_ratio(n, p.n)) + square(log_ratio(k, p.k));
        if (distance == 0) return p.time;
        if (distance >= nearest.back().distance) continue;
        nearest.back() = {distance, std::log(flops(p.m, p.n, p.k) / p.time.si())};
        std::ranges::sort(nearest, {}, &Near::distance);
    }
    if (nearest.front().distance == INFINITY)
        throw ConfigError("cluster.kernel.gemm_table: no " + std::string(to_string(dtype)) +
                          " shape; expected measured shapes of that dtype");
    double weight = 0, sum = 0;
    for (const Near& near : nearest) {
        if (near.distance == INFINITY) continue;
        weight += 1 / near.distance;
        sum += near.log_rate / near.distance;
    }
    return Seconds(flops(m, n, k) / std::exp(sum / weight));
}

std::optional<Seconds> gemm_rows_time(std::span<const GemmPoint> table, long m, long n, long k,
                                      Dtype dtype) {
    const GemmPoint *below = nullptr, *above = nullptr;
    for (const GemmPoint& p : table) {
        if (p.n != n || p.k != k || p.dtype != dtype) continue;
        if (p.m <= m && (!below || p.m > below->m)) below = &p;
        if (p.m >= m && (!above || p.m < above->m)) above = &p;
    }
    if (!below || !above) return std::nullopt;
    if (below->m == above->m) return below->time;
    const double share = real(m - below->m) / real(above->m - below->m);
    return below->time + share * (above->time - below->time);
}

}  // namespace stepcast
