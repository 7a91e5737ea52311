// Statistics of measured samples.
#pragma once

#include <vector>

#include "model/graph/step_times.h"
#include "model/graph/task_graph.h"
#include "model/records/measurement.h"

namespace stepcast {

double median(std::vector<double> values);              // throws std::logic_error when empty
double quantile(std::vector<double> values, double q);  // linear interpolation, q in 0..1

// Median over accepted steps, or over all if none was accepted (then the runner adds a warning).
StepTimes median_times(const Measurement& measurement);

// Median measured duration of each task over accepted steps, indexed by task id. A collective's
// duration counts from the latest arrival of its ranks, as the executor records it.
std::vector<Seconds> median_durations(const TaskGraph& graph, const Measurement& measurement);

}  // namespace stepcast
