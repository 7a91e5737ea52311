// The constant that prices most of an operation, and on what it rests.
#pragma once

#include <vector>

#include "sim/engine/simulate.h"
#include "sim/results/forecast.h"

namespace stepcast {

// Which constants the step rests on: for each constant, its share of the critical path, largest
// first. A segment belongs to the constant that prices most of its op (the rate of a GEMM, the cost
// of a host call). `measured`: the cluster's own fit determined the constant, or a measured table
// answers. Shares add up to 1; a path without time has none. The timeline must be simulated with
// Record::waits.
std::vector<CostBasis> basis_of(const TaskGraph& graph, const Costs& costs,
                                const Timeline& timeline, const Cluster& cluster);

}  // namespace stepcast
