// Times from measured tables: curves of time over payload, and shapes of GEMMs.
#pragma once

#include <optional>
#include <span>

#include "model/cluster.h"

namespace stepcast {

// Linear in bytes between points. Below the first point it is the time of that point; beyond the
// last, the slope of the last two continues. Throws std::logic_error for an empty curve.
Seconds interpolate(const Curve& curve, Bytes bytes);

// The time of a measured (m, n, k, dtype) itself; else the arithmetic over a rate interpolated from
// the four nearest measured shapes: log(rate), weighted by inverse squared distance in (log m, log
// n, log k). Throws ConfigError when the table has no shape of this dtype.
Seconds gemm_table_time(std::span<const GemmPoint> table, long m, long n, long k, Dtype dtype);

// Linear in m between the rows of the same weight (n, k) and dtype. Nothing for other weights, or
// outside of its rows.
std::optional<Seconds> gemm_rows_time(std::span<const GemmPoint> table, long m, long n, long k,
                                      Dtype dtype);

}  // namespace stepcast
