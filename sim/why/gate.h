// Is a run slower than its history allows (`compare RUN --gate`)?
//
// The level of a run is the median of the logarithms of its steps, so that bursts and stalls weigh
// little. How much it scatters is read off the runs themselves: within a run by resampling blocks
// of consecutive steps (drift and bursts make neighbours alike), between runs by the levels of the
// history. The run fails if its level lies above the history's by more than the quantile of
// Student's t that leaves the stated share of false alarms. One run of history tells nothing about
// how runs differ; then only the steps' own scatter counts, and it is said.
// Blocks: H. R. Kuensch, Annals of Statistics 17 (1989).
#pragma once

#include <vector>

#include "sim/results/gate.h"

namespace stepcast {

inline constexpr int fewest_gate_steps = 5;

// Throws ConfigError for a history without a run or a share that is no share.
GateAnswer judge_run(const GateRun& run, const std::vector<GateRun>& history,
                     double false_alarms = 0.01, double tolerance = 0.03);

// The value that Student's t with `freedom` degrees exceeds with probability `above`, to 1e-6.
double student_quantile(double above, double freedom);

// Standard deviation of the level of a run.
double level_error(const std::vector<Seconds>& steps);

}  // namespace stepcast
