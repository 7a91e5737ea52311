// Calibrating the host: graphs of the same kind that a step is, and what their measurements say about it.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/cluster.h"
#include "model/graph/task_graph.h"
#include "model/records/measurement.h"

namespace stepcast {

// Sweeps for `ranks` ranks that all run at once, as in a step: GEMM shapes (plain and as weight gradients), memory
// passes, every collective, empty tasks. Cut into graphs of some 40 ms, so that a disturbed repetition costs little.
std::vector<TaskGraph> host_sweeps(int ranks);

struct SweepResult {
    TaskGraph graph;
    Measurement measurement;
};

// "" when all sweeps were quiet, else how many were not and what to do about it.
std::string busy_warning(std::span<const SweepResult> results);

// A cluster of one node whose GPUs are this host's ranks: measured tables and curves, the laws fitted to them, noise,
// and how well a fifth of the points is predicted by the others. `memory` is what one rank may use.
Cluster fit_host(std::span<const SweepResult> results, const std::string& processor, Bytes memory);

// Measured points, and a law fitted to them at the same places: for plots. Predictions interpolate the points.
struct FittedCurve {
    std::string name;
    std::vector<std::pair<double, double>> measured, fitted;
};
// Memory passes and collectives of a fitted host: seconds against bytes, and latency + bytes / rate of each.
std::vector<FittedCurve> fitted_curves(const Cluster& host);
// Products of m = n: FLOP/s against k, and the law of fit_host().
std::vector<FittedCurve> fitted_rates(const Cluster& host);

}  // namespace stepcast
