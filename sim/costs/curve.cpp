#include "sim/costs/curve.h"

#include <algorithm>
#include <stdexcept>

namespace stepcast {

Seconds interpolate(const Curve& curve, Bytes bytes) {
    if (curve.empty()) throw std::logic_error("interpolate: empty curve");
    if (bytes <= curve.front().bytes || curve.size() == 1) return curve.front().time;
    auto upper =
        std::lower_bound(curve.begin(), curve.end(), bytes, [](const CurvePoint& p, Bytes b) { return p.bytes < b; });
    if (upper == curve.end()) --upper;
    const CurvePoint &a = *(upper - 1), &b = *upper;
    return a.time + (bytes - a.bytes) / (b.bytes - a.bytes) * (b.time - a.time);
}

}  // namespace stepcast
