// Graphs of the same kind as a training step that a host runs to be calibrated as a device, and the
// points that they measured.
#pragma once

#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/graph/task_graph.h"
#include "model/records/measurement.h"

namespace stepcast {

// Sweeps over `ranks` ranks that all run at once, as in a step: GEMM shapes (plain and as weight
// gradients), memory passes, every collective, empty tasks. They are cut into graphs of some 40 ms,
// so that a disturbance spoils only a short repetition.
std::vector<TaskGraph> host_sweeps(int ranks);

struct SweepResult {
    TaskGraph graph;
    Measurement measurement;
};

// The durations of each task, one for each repetition; a task on several ranks lasts as long as on
// its slowest rank.
std::vector<std::vector<double>> durations(const TaskGraph& graph,
                                           const std::vector<const Trace*>& traces);
// Adds the times from the start of an "empty" task of rank 0 to the start of the next, in seconds:
// what a task costs besides its work.
void add_empty_intervals(const TaskGraph& graph, const std::vector<const Trace*>& traces,
                         std::vector<double>& intervals);
double step_spread(const std::vector<const Trace*>& traces);  // log_spread() of the steps' ends
// Standard deviation of the logarithm, from quartiles: those of a normal distribution lie 1.349
// standard deviations apart.
double log_spread(const std::vector<double>& values);
// their median, at most the largest value of cluster.noise; 0 if there are none
double sweep_noise(const std::vector<double>& spreads);

// How far steps lie from forecasts of kernels that were measured alone. Host: nine executed steps
// of a quiet machine were 3 % off (root mean square), those of a busy hour up to 13 %. GPU: set
// before an H100 was calibrated, whose 15 executed steps then were 7.6 % off (notes/gpu.md).
inline constexpr double unseen_host_step = 0.05, unseen_gpu_step = 0.08;
// cluster.noise.step: that, and how the steps of one run scatter.
inline double noise_of_steps(double unseen, double step_noise) {
    return std::hypot(unseen, step_noise);
}

// What a host sweep measured, one point for each size: medians over ranks and undisturbed
// repetitions. Where no repetition was undisturbed, the lower quartile of all, since disturbance
// only adds time.
struct HostPoints {
    std::vector<GemmPoint> gemms;
    Curve memory;  // by ascending bytes, as are the curves below
    Curve transposes;
    std::map<std::string, Curve> collectives;  // by kind_name
    Seconds empty_task;                        // from the start of one empty task to the next
    Seconds barrier;
    double op_noise = 0, step_noise = 0;  // standard deviations of the logarithm, from quartiles
    int samples = 0;
};

HostPoints collect_points(std::span<const SweepResult> results);

}  // namespace stepcast
