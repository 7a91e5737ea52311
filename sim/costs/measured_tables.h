// What measured tables answer: curves of time against payload, and shapes of GEMMs.
#pragma once

#include <optional>
#include <span>

#include "model/cluster.h"

namespace stepcast {

// Linear in bytes between points; below the first point its time; beyond the last the slope of the last two continues.
// Throws std::logic_error for an empty curve.
Seconds interpolate(const Curve& curve, Bytes bytes);

// The time of a measured (m, n, k, dtype) itself; otherwise the arithmetic over a rate that is interpolated from the
// four nearest measured shapes: log(rate), weighted by inverse squared distance in (log m, log n, log k).
// Throws ConfigError when the table has no shape of this dtype.
Seconds gemm_table_time(std::span<const GemmPoint> table, long m, long n, long k, Dtype dtype);

// Between the rows (m) of the same weight (n, k) and dtype, linear in m; nothing for other weights and beyond its rows.
std::optional<Seconds> gemm_rows_time(std::span<const GemmPoint> table, long m, long n, long k, Dtype dtype);

}  // namespace stepcast
