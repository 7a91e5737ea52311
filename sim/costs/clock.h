// The clock that the power limit leaves, and the energy that work takes.
#pragma once

#include "model/cluster.h"
#include "model/graph/op.h"
#include "sim/engine/simulate.h"

namespace stepcast {

// A kernel that at full clock takes `time` for `work` floating-point operations of `dtype` and `moved` bytes draws
//   idle + (pJ a flop) work / time + (pJ a byte) moved / time,
// an operation of fewer bits in proportion to its time at peak. Above the limit the clock falls; what is drawn beyond idle goes with
// its square (frequency times voltage squared, the voltage following in part), so the kernel takes
//   s = max(1, sqrt((drawn - idle) / (limit - idle)))
// times as long when it runs for longer than the controller takes to answer. 1 where no limit is known, or where the rates
// hold that clock already (power.in_rates).
// Source: kernels timed for a second and in bursts, with the power sampled (docs/calibration.md).
double sustained_slowdown(Flops work, Dtype dtype, Bytes moved, Seconds time, const Cluster& cluster);

// The same kernel in a benchmark that repeats it a few times: a part of the fall, half of it at power.response.
Seconds burst_time(Seconds full_clock, double slowdown, const Power& power);

// What an op draws beyond idle; collectives and the host nothing. At a lower clock an operation takes less.
Joules op_energy(const Op& op, Seconds time, const Cluster& cluster);

// Of a step: all ranks like the mean of those simulated, idle power throughout. 0 where the cluster states no limit.
Joules step_energy(const TaskGraph& graph, const Timeline& timeline, const Cluster& cluster);

}  // namespace stepcast
