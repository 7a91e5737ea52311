// Measured curves: time against payload.
#pragma once

#include "model/cluster.h"

namespace stepcast {

// Linear in bytes between points; below the first point its time; beyond the last the slope of the last two continues.
// Throws std::logic_error for an empty curve.
Seconds interpolate(const Curve& curve, Bytes bytes);

}  // namespace stepcast
