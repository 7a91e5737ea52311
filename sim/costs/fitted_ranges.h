// Which sizes of a step lie outside those that its cluster's laws were fitted on.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/graph/op.h"

namespace stepcast {

// One line for each of cluster.fitted->ranges that the ops leave ("extrapolated: gemm.n up to 128256, fitted on 512 to
// 16384"); empty when nothing.
std::vector<std::string> outside_fitted_ranges(std::span<const Op> ops, const Cluster& cluster);

}  // namespace stepcast
