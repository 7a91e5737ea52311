// What a training step takes as its constants change, with derivatives: one simulation for the step, and the critical path for
// the derivatives (sim/explain).
#pragma once

#include <string>
#include <vector>

#include "cases/cases.h"

namespace stepcast {

// A constant that a fit of steps may move, below "cluster."; or eager_traffic, which changes the graph.
inline constexpr const char* eager_traffic_key = "parallelism.eager_traffic";

struct StepSlopes {
    Seconds step;
    std::vector<double> slopes;  // d log step / d log value, of each key
};

// The case with each key at its value times `factors`. With many micro-batches two shorter steps are simulated and continued in a
// straight line: beyond the filling of the pipeline each micro-batch adds the same, unless a host falls
// behind only later: a `whole` step is simulated as it is.
StepSlopes step_with_slopes(const Case& what, const std::vector<std::string>& keys, const std::vector<double>& factors,
                            bool whole = false);
// Whether its step has more micro-batches than those two.
bool goes_on_from_few(const Experiment& e);

}  // namespace stepcast
