// Where the step of one rank went.
#pragma once

#include "model/forecast.h"
#include "sim/simulate.h"

namespace stepcast {

// The rank whose last task ends last (lowest number on a tie).
int slowest_rank(const TaskGraph& graph, const Timeline& timeline);

// Splits [0, step] of `rank`: compute kernel running; else memory pass running; else a transfer running = exposed
// communication; else host work running, or the next task waits to be issued = host; else idle before a task that
// waits for another rank = imbalance, or bubble when what it waited for came through a send or receive of a pipeline or
// the rank's work is over before the step. The six add up to the step.
Breakdown breakdown(const TaskGraph& graph, const Costs& costs, const Timeline& timeline, int rank);

}  // namespace stepcast
