// The price of one op: matrix kernels, memory passes and host calls. Collectives are in
// collective_costs.cpp.
#pragma once

#include <span>

#include "model/cluster.h"
#include "model/graph/task_graph.h"

namespace stepcast {

// Duration of one op on a cluster. `places` gives the participants of a collective, `phase` the
// direction of host calls.
Seconds op_time(const Op& op, Phase phase, std::span<const Place> places, const Cluster& cluster);

}  // namespace stepcast
