// The clock that the power limit leaves, and the energy of the work.
#pragma once

#include "model/cluster.h"
#include "model/graph/op.h"
#include "sim/engine/simulate.h"

namespace stepcast {

// A kernel that at full clock takes `time` for `work` floating-point operations of `dtype` and
// `moved` bytes draws
//   idle + (pJ a flop) work / time + (pJ a byte) moved / time,
// where an operation of fewer bits counts in proportion to its time at peak. Above the limit the
// clock falls. The power beyond idle goes with the square of the clock (frequency times voltage
// squared, where the voltage follows in part). So a kernel that runs longer than the controller
// takes to answer gets slower by
//   s = max(1, sqrt((drawn - idle) / (limit - idle))).
// s is 1 if no limit is known, or if the cluster's rates already contain that clock
// (power.in_rates). Source: kernels timed for a second and in bursts, with the power sampled
// (notes/kernel-laws.md).
double sustained_slowdown(Flops work, Dtype dtype, Bytes moved, Seconds time,
                          const Cluster& cluster);

// The same kernel in a benchmark that repeats it a few times: only a part of the slowdown, half of
// it if the kernel takes power.response.
Seconds burst_time(Seconds full_clock, double slowdown, const Power& power);

// Energy of an op beyond idle power; 0 for collectives and the host. At a lower clock an operation
// takes less. To the work comes what the SMs draw in any kernel (power.busy_share); together they
// stay below the limit. The clock's law does without it: it describes products near their best
// rate, where flop_pj was fitted with that share in it.
Joules op_energy(const Op& op, Seconds time, const Cluster& cluster);

// Energy of a step, if all ranks are like the mean of the simulated ones, with idle power
// throughout. 0 if the cluster states no limit.
Joules step_energy(const TaskGraph& graph, const Timeline& timeline, const Cluster& cluster);

}  // namespace stepcast
