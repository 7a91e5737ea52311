#include "sim/costs/cast_law.h"

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

struct Kind {
    double launches, bytes;
};

Kind kind_of(CastScale scale) {
    switch (scale) {
        case CastScale::given: return {1, 3};
        case CastScale::rows: return {1.6, 4.5};
        case CastScale::tensor: return {5.6, 7};
    }
    return {};
}

}  // namespace

Seconds cast_time(long rows, long width, CastScale scale, const Cluster& cluster) {
    const CastCosts& cast = cluster.kernel.cast;
    const auto elements = static_cast<double>(rows) * static_cast<double>(width);
    const Kind kind = kind_of(scale);
    const Bytes pass(3 * elements);
    const double warmth = cast.cache > Bytes(0) ? 1 + (cast.cache_gain - 1) / (1 + std::pow(pass / cast.cache, 3)) : 1;
    Seconds moving = Bytes(kind.bytes * elements) / (cluster.gpu.memory_bandwidth * cast.efficiency) / warmth;
    if (scale == CastScale::rows)
        moving = std::max(moving, static_cast<double>(rows) / cluster.gpu.sms * cast.row);
    return kind.launches * cast.launch + moving;
}

Seconds input_cast_time(long m, long k, Dtype dtype, bool scaled_blocks, const Cluster& cluster) {
    const KernelCosts& costs = cluster.kernel;
    const NarrowGemm& narrow = costs.of_narrow(dtype, scaled_blocks);
    if (narrow.cast_bytes == 0) return narrow.cast_launch + cast_time(m, k, CastScale::tensor, cluster);
    const Bytes moved(narrow.cast_bytes * static_cast<double>(m) * static_cast<double>(k));
    return narrow.cast_launch + moved / (cluster.gpu.memory_bandwidth * costs.cast.efficiency);
}

}  // namespace stepcast
