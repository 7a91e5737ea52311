// Casting a matrix of 16 bits to fp8, as frameworks do before a product.
#pragma once

#include "model/cluster.h"

namespace stepcast {

// `given`: the scale is known, one pass. `given_rows`: the same with a thread block a row. `rows`: such a kernel that finds a scale
// a row. `tensor`: passes for the maximum come first.
enum class CastScale : std::uint8_t { given, given_rows, rows, tensor };

// t = launches * cast.launch + max(bytes / (memory bandwidth * cast.efficiency * warmth), rows / SMs * cast.row * share). An
// element moves 3 bytes (given), 4.6 (rows) or 6.6 (tensor: read twice more), in 1, 1.2 (given_rows), 1.55 and 6 launches; a row's
// block costs all of cast.row where it finds a scale and 0.4 of it where that is given: the same for every device; the launches that
// a framework makes around it are in them. warmth goes from cache_gain, well
// below cast.cache, to 1. The passes of `tensor` (TensorRT-LLM's, a fixed number of threads that walk over all elements) have a rate of
// their own in memory and in the L2, cast.tensor_efficiency and tensor_gain; outside of the L2 what they write, up to the L2's size, takes tensor_written
// bytes more each: on Blackwell 40 us that a larger cast does not take twice. Source: casts of six devices in two frameworks (docs/calibration.md).
Seconds cast_time(long rows, long width, CastScale scale, const Cluster& cluster);

// How much of so many bytes the L2 still holds when a kernel reads them again: from 1, well below cast.cache, to 0.
double held_by_cache(Bytes bytes, const CastCosts& cast);

// The cast in front of a narrow product [m, k], as a framework's linear layer runs it, by the format's own constants: with a scale for
// each block of a row t = cast_launch + cast_bytes elements / (memory bandwidth * cast.efficiency * warmth) + rows / SMs * cast_row.
// The last is what TensorRT-LLM's cast of 128-wide blocks takes on RTX PRO 6000, 4 us a row, whatever its width; elsewhere some 0.05 us.
Seconds input_cast_time(long m, long k, Dtype dtype, bool scaled_blocks, const Cluster& cluster);

// What older releases of TensorRT-LLM add to that before 128-wide products on Blackwell: a kernel that brings the scales into the order
// that tensor cores read, t = 1.6 us + 6.3 bytes an element at the cast's rate, and 8 us more where m is no multiple of 32. The same on B200
// and GB200, the two that were measured.
Seconds scale_layout_time(long m, long k, const Cluster& cluster);

}  // namespace stepcast
