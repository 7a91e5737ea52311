// A traced step next to the forecast of the experiment that ran: which kinds of work are off, and both as pictures.
#pragma once

#include <string>
#include <vector>

#include "calibrate/profiles/profile.h"
#include "cases/cases.h"
#include "model/answers/traced_step.h"
#include "sim/predict.h"

namespace stepcast {

struct TraceForecast {
    Comparison comparison;  // with forecast and attribution, unless refused
    Prediction prediction;
    TracedSlices traced;    // the step, aligned with the forecast's first work on a device; processes from 1000 on
    std::vector<std::string> notes;
};

// The step in the middle by length, of those between two marks (alone its own length), is held against the forecast: kernels by
// kind and phase, collectives by the shortest of their ranks. Replayed is the forecast's graph with each kind as long as it was
// traced. Throws ConfigError where the trace is of another number of ranks, or marks no steps and holds no whole one.
TraceForecast forecast_of_trace(const std::vector<Profile>& job, const Experiment& experiment);

}  // namespace stepcast
