// Compares a traced step with the forecast of the experiment that ran: which kinds of work are off,
// and a timeline of both.
#pragma once

#include <string>
#include <vector>

#include "import/profiles/profile.h"
#include "sim/predict.h"
#include "sim/results/comparison.h"
#include "sim/results/traced_step.h"

namespace stepcast {

struct TraceForecast {
    Comparison comparison;  // with forecast and attribution
    Prediction prediction;
    // the step, aligned to the forecast's first work on a device; process numbers from 1000 on
    TracedSlices traced;
    std::vector<std::string> notes;
};

// Compares the forecast with the step of median length among those between two marks (a single step
// has its own length): kernels by kind and phase, collectives by the shortest of their ranks. The
// replay is the forecast's graph with each kind of work as long as it was traced. Throws
// ConfigError when the trace is of another number of ranks, or when no kernel was launched within
// the step.
TraceForecast forecast_of_trace(const std::vector<Profile>& job, const Experiment& experiment);

}  // namespace stepcast
