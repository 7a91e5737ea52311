// Fits the cluster that a host is, as a device, to its sweeps.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "calibrate/host_sweep.h"
#include "model/cluster.h"
#include "sim/results/fit_points.h"

namespace stepcast {

// "" when all sweeps were quiet, else how many were not and what to do about it.
std::string busy_warning(std::span<const SweepResult> results);

// A cluster of one node whose GPUs are this host's ranks: measured tables and curves, the laws
// fitted to them, the noise, and the errors on a fifth of the points predicted from the others.
// `memory` is what one rank may use.
Cluster fit_host(std::span<const SweepResult> results, const std::string& processor, Bytes memory);

// For plots of a fitted host: seconds of memory passes and collectives against bytes, each with its
// fit of latency + bytes / rate.
std::vector<FittedCurve> fitted_curves(const Cluster& host);
// For plots: FLOP/s of products with m = n against k, with the law that fit_host() fitted.
std::vector<FittedCurve> fitted_rates(const Cluster& host);

}  // namespace stepcast
