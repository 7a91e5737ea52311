// What the columns value and unit of a row say of its step, in any unit that throughput is printed
// in.
#pragma once

#include <optional>
#include <string>

#include "import/tables/cases.h"
#include "model/experiment.h"

namespace stepcast {

// Refuses a step that the columns value and unit contradict by over 2 %, whatever they count: times
// of a step, steps, sequences or tokens per time, of one GPU or of all. A run's total time says
// nothing of a step.
void check_value(const CaseRow& row, Seconds step);

// The step in seconds that value, unit and batch say, in the units of check_value(); none where
// they leave open whether one GPU or all are meant.
std::optional<double> step_by_value(const CaseRow& row);

// Refuses a step that contradicts TFLOP/s or a share of the peak (MFU) by over a factor of two.
void check_rate(const CaseRow& row, const Experiment& e, Seconds step);

// What is wrong with a step whose work, recompute included if the row states it, is above the peak
// of its GPUs; empty if it can be.
std::string above_peak(const CaseRow& row, const Experiment& e, Seconds step);

}  // namespace stepcast
