// Which measured tables of a cluster count before which of its rates.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

// Of a rate or a fixed cost of a cluster, the keys (below "cluster.") of the tables that hold
// measured times of what it would price: those count and it does not, where they have points. Empty
// for others.
//   link.L.bandwidth, link.L.latency       collectives measured on link L
//   gpu.peak.T                             kernel.gemm_table, .gemm_near, .gemm_near_accumulated
//   gpu.memory_bandwidth                   kernel.memory_curve
std::vector<std::string> tables_before(std::string_view key);

}  // namespace stepcast
