#include "sim/costs/cast_law.h"

#include <algorithm>
#include <cmath>

#include "model/base/numbers.h"

namespace stepcast {
namespace {

struct CastKind {
    double launches, bytes, row;
};

CastKind kind_of(CastScale scale) {
    switch (scale) {
        case CastScale::given: return {1, 3, 0};
        case CastScale::given_rows: return {1.2, 3, 0.4};
        case CastScale::rows: return {1.55, 4.6, 1};
        case CastScale::tensor: return {6, 6.6, 0};
    }
    return {};
}

// For elements that are read in 16 bits and written in 8 bits.
double held(double elements, const CastCosts& cast) {
    return held_by_cache(Bytes(3 * elements), cast);
}

double warmth(double elements, const CastCosts& cast) {
    return 1 + (cast.cache_gain - 1) * held(elements, cast);
}

Seconds moving_time(double elements, CastScale scale, const Cluster& cluster) {
    const CastCosts& cast = cluster.kernel.cast;
    const Bytes bytes(kind_of(scale).bytes * elements);
    if (scale != CastScale::tensor || cast.tensor_efficiency == 0)
        return bytes / (cluster.gpu.memory_bandwidth * cast.efficiency) / warmth(elements, cast);
    const double cached = held(elements, cast);
    const Bytes written =
        (1 - cached) * cast.tensor_written * std::min(Bytes(elements), cluster.gpu.l2);
    return bytes / (cluster.gpu.memory_bandwidth * cast.tensor_efficiency) /
               (1 + (cast.tensor_gain - 1) * cached) +
           written / cluster.gpu.memory_bandwidth;
}

}  // namespace

double held_by_cache(Bytes bytes, const CastCosts& cast) {
    return cast.cache == Bytes(0) ? 0 : 1 / (1 + std::pow(bytes / cast.cache, 3));
}

Seconds cast_time(long rows, long width, CastScale scale, const Cluster& cluster) {
    const CastCosts& cast = cluster.kernel.cast;
    const auto elements = real(rows) * real(width);
    const CastKind kind = kind_of(scale);
    const Seconds moving = moving_time(elements, scale, cluster);
    return kind.launches * cast.launch +
           std::max(moving, kind.row * real(rows) / cluster.gpu.sms * cast.row);
}

Seconds input_cast_time(long m, long k, Dtype dtype, bool scaled_blocks, const Cluster& cluster) {
    const KernelCosts& costs = cluster.kernel;
    const NarrowGemm& narrow = costs.of_narrow(dtype, scaled_blocks);
    if (narrow.cast_bytes == 0)
        return narrow.cast_launch + cast_time(m, k, CastScale::tensor, cluster);
    const double elements = real(m) * real(k);
    const Seconds moving = Bytes(narrow.cast_bytes * elements) /
                           (cluster.gpu.memory_bandwidth * costs.cast.efficiency) /
                           warmth(elements, costs.cast);
    return narrow.cast_launch + moving + real(m) / cluster.gpu.sms * narrow.cast_row;
}

Seconds scale_layout_time(long m, long k, const Cluster& cluster) {
    const Seconds launch(1.6e-6), ragged(8e-6);
    constexpr double bytes = 6.3;
    constexpr long rows = 32;
    const Bytes moved(bytes * real(m) * real(k));
    return launch + (m % rows > 0 ? ragged : Seconds(0)) +
           moved / (cluster.gpu.memory_bandwidth * cluster.kernel.cast.efficiency);
}

}  // namespace stepcast
