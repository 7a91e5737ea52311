// Calibrating the host: graphs of the same kind that a step is, and what their measurements say about it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/answers/fit_points.h"
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

// Durations of each task, one a repetition; a task on several ranks lasts until the last has left it.
std::vector<std::vector<double>> durations(const TaskGraph& graph, const std::vector<const Trace*>& traces);
// From the start of an "empty" task of rank 0 to the start of the next, in seconds: what a task costs beyond its work.
void add_empty_intervals(const TaskGraph& graph, const std::vector<const Trace*>& traces, std::vector<double>& intervals);
double step_spread(const std::vector<const Trace*>& traces);  // log_spread() of the steps
// Standard deviation of the logarithm, from quartiles: 1.349 of them apart in a normal distribution.
double log_spread(const std::vector<double>& values);
double sweep_noise(const std::vector<double>& spreads);  // their median, at most what cluster.noise takes; of none 0

// "" when all sweeps were quiet, else how many were not and what to do about it.
std::string busy_warning(std::span<const SweepResult> results);

// A cluster of one node whose GPUs are this host's ranks: measured tables and curves, the laws fitted to them, noise,
// and how well a fifth of the points is predicted by the others. `memory` is what one rank may use.
Cluster fit_host(std::span<const SweepResult> results, const std::string& processor, Bytes memory);

// For plots. Memory passes and collectives of a fitted host: seconds against bytes, and latency + bytes / rate of each.
std::vector<FittedCurve> fitted_curves(const Cluster& host);
// Products of m = n: FLOP/s against k, and the law of fit_host().
std::vector<FittedCurve> fitted_rates(const Cluster& host);

// What a host sweep measured, one point a size: medians over ranks and undisturbed repetitions. Where no repetition was
// undisturbed, the lower quartile of all: disturbance only adds time.
struct HostPoints {
    std::vector<GemmPoint> gemms;
    Curve memory;  // ascending, one point a size; so are the curves below
    Curve transposes;
    std::map<std::string, Curve> collectives;  // by kind_name
    Seconds empty_task;                        // from one empty task to the next
    Seconds barrier;
    double op_noise = 0, step_noise = 0;  // standard deviations of the logarithm, from quartiles
    int samples = 0;
};

HostPoints collect_points(std::span<const SweepResult> results);

}  // namespace stepcast
