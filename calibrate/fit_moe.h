// From imported medians of MoE layers to a fitted cluster file: which cases, which free parameters.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/fit.h"
#include "model/records/measurements.h"

namespace stepcast {

// The free parameters with their priors and bounds; fit_moe() takes the priors of links from the
// start cluster instead.
std::vector<FitParameter> moe_parameters();

// The cases that the rows offer, per run: step, forward and backward; with recorded block totals also the fused kernels
// per rank, the weight gradient and the wait for the host's assignment. A run without recorded routing is predicted by the median over random-gate draws, the same draws in every
// evaluation. Rows with step = -1 are used; runs that have none are summarised first. Throws ConfigError naming the run.
std::vector<FitCase> moe_cases(const std::vector<Sample>& rows, const Cluster& cluster);

// Reads imported measurements and fits them.
FitResult fit_moe(const Cluster& start, const std::vector<std::string>& paths,
                  const std::function<void(std::string_view)>& progress = {});

}  // namespace stepcast
