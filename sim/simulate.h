// The simulator: a graph and a cost per task in, a trace out. Two engines with the same rules (task_graph.h): one pass
// in issue order while costs do not interact, an event engine when concurrent tasks slow each other.
#pragma once

#include <vector>

#include "model/task_graph.h"
#include "model/step_times.h"
#include "model/trace.h"
#include "sim/costs.h"

namespace stepcast {

// Start and finish of each task: what the engines compute; reused between calls so that nothing is allocated.
struct Timeline {
    std::vector<Seconds> start, finish;  // by task id
    Seconds end;
    friend bool operator==(const Timeline&, const Timeline&) = default;
};

// A task on a compute lane runs at 1 / (1 + compute_slowdown) of its speed while a communication lane of its rank is
// busy, and communication at 1 / (1 + communication_slowdown) while one of its ranks computes.
struct Contention {
    double compute_slowdown = 0;
    double communication_slowdown = 0;
    friend bool operator==(const Contention&, const Contention&) = default;
};

Trace simulate(const TaskGraph& graph, const Costs& costs);
Trace simulate(const TaskGraph& graph, const Costs& costs, const Contention& contention);

// The same without a Trace, for Monte Carlo and benchmarks.
void run_in_order(const TaskGraph& graph, const Costs& costs, Timeline& timeline);
void run_with_contention(const TaskGraph& graph, const Costs& costs, const Contention& contention, Timeline& timeline);
Trace to_trace(const TaskGraph& graph, const Timeline& timeline);
StepTimes step_times(const TaskGraph& graph, const Timeline& timeline, int reporting_rank = 0);

}  // namespace stepcast
