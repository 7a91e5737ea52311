// What a law of collectives misses, as fitted factors on a coarse grid of ranks and bytes: protocols that NCCL switches
// at sizes of its own choice.
#pragma once

#include <string_view>
#include <vector>

#include "model/cluster.h"

namespace stepcast {

// Of the points of this op: the logarithm of the factor is linear in the logarithm of bytes between two points of one rank
// count, then in the logarithm of ranks between two counts; outside the grid its edge holds. 1 without points.
double correction(const std::vector<Correction>& grid, std::string_view op, int ranks, Bytes bytes);

}  // namespace stepcast
