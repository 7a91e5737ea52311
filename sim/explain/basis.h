// How much of a step rests on constants that were determined on its device, and how much on priors.
#pragma once

#include "model/answers/forecast.h"
#include "sim/engine/simulate.h"

namespace stepcast {

// Of the critical path: the share of each constant that prices most of a segment's op (the rate of a GEMM, the cost of a
// host's call), largest first. `measured`: the cluster's own fit determined it, or a measured table answers. Shares add up
// to 1; a path without time has none.
std::vector<CostBasis> basis_of(const TaskGraph& graph, const Costs& costs, const Timeline& timeline,
                                const Cluster& cluster);

}  // namespace stepcast
