// From imported medians of MoE layers to a fitted cluster file: which cases, which free parameters.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/fit.h"
#include "model/measurements.h"

namespace stepcast {

// The free parameters with their priors and bounds; calibrate_from_measurements() takes the priors of links from the
// start cluster instead.
std::vector<FitParameter> moe_parameters();

// The cases that the rows offer, per run: step, forward and backward; with recorded block totals also the fused kernels
// per rank, the weight gradient and the wait for the host's assignment. A run without recorded routing is predicted by the median over random-gate draws, the same draws in every
// evaluation. Rows with step = -1 are used; runs that have none are summarised first. Throws ConfigError naming the run.
std::vector<FitCase> moe_cases(const std::vector<Sample>& rows, const Cluster& cluster);

struct CalibrationRequest {
    std::vector<std::string> measurements;
    std::string cluster;  // preset or file to start from
    std::string out;      // cluster file to write
    std::string date;     // of today, for the provenance
};
// Reads, fits, writes `out` and returns what to show. Building-block files are refused by name for now.
std::string calibrate_from_measurements(const CalibrationRequest& request,
                                        const std::function<void(std::string_view)>& progress = {});

}  // namespace stepcast
