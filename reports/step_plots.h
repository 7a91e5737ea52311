// Plots of a step: its slots over time, and which parameters would change it.
#pragma once

#include <span>
#include <string>

#include "sim/results/explanation.h"
#include "sim/results/gantt.h"

namespace stepcast {

// How the step changes with more of each cluster parameter: one bar per parameter, simulated again,
// for the strongest ones; marks show the change along the critical path.
void plot_elasticities(const Explanation& explanation, const std::string& title,
                       const std::string& path);

// A step over time: slots of each rank with their micro-batches, exposed collectives, idle time
// hatched, and one rank's memory below. Several steps are drawn one below the other on one time
// axis.
void plot_gantts(std::span<const Gantt> gantts, const std::string& path);

}  // namespace stepcast
