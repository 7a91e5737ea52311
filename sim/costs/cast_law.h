// Casts of a 16-bit matrix to fp8, as frameworks run them before a product.
#pragma once

#include "model/cluster.h"

namespace stepcast {

// `given`: the scale is known, one pass. `given_rows`: the same with a thread block for each row.
// `rows`: a kernel that also finds a scale for each row. `tensor`: passes for the maximum come
// first.
enum class CastScale : std::uint8_t { given, given_rows, rows, tensor };

// t = launches * cast.launch + max(bytes / (memory bandwidth * cast.efficiency * warmth), rows /
// SMs * cast.row * share) An element moves 3 bytes (given), 4.6 (rows) or 6.6 (tensor, which reads
// twice more). `launches` is 1, 1.2 (given_rows), 1.55 (rows) and 6 (tensor), with those that a
// framework makes around the cast. `share` is 1 where a block finds its row's scale, and 0.4 where
// the scale is given (given_rows). These numbers are the same for every device. `warmth` goes from
// cache_gain, well below cast.cache, to 1. The passes of `tensor` (TensorRT-LLM's: a fixed number
// of threads that walk over all elements) have rates of their own: cast.tensor_efficiency in
// memory, tensor_gain in the L2. Outside the L2, each byte that they write takes tensor_written
// bytes more, up to the L2's size: 40 us on Blackwell, which a larger cast does not take twice.
// Source: casts of six devices in two frameworks (notes/kernel-laws.md).
Seconds cast_time(long rows, long width, CastScale scale, const Cluster& cluster);

// The share of so many bytes that the L2 still holds when a kernel reads them again: from 1, well
// below cast.cache, to 0.
double held_by_cache(Bytes bytes, const CastCosts& cast);

// The cast in front of a narrow product [m, k], as a framework's linear layer runs it, with the
// format's own constants. With a scale for each block of a row: t = cast_launch + cast_bytes
// elements / (memory bandwidth * cast.efficiency * warmth) + rows / SMs * cast_row. The last term
// is for TensorRT-LLM's cast of 128-wide blocks: 4 us a row on RTX PRO 6000, whatever the width,
// and some 0.05 us elsewhere.
Seconds input_cast_time(long m, long k, Dtype dtype, bool scaled_blocks, const Cluster& cluster);

// What older releases of TensorRT-LLM add before 128-wide products on Blackwell: a kernel that
// reorders the scales for the tensor cores. It takes t = 1.6 us + 6.3 bytes an element at the
// cast's rate, and 8 us more if 32 does not divide m. Measured on B200 and GB200, with equal times.
Seconds scale_layout_time(long m, long k, const Cluster& cluster);

}  // namespace stepcast
