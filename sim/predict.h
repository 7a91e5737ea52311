// Experiment -> Forecast: build, price, simulate; Monte Carlo over routings and jitter when asked for.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "model/cases/cases.h"
#include "model/experiment.h"
#include "model/forecast.h"
#include "sim/costs/costs.h"
#include "sim/simulate.h"

namespace stepcast {

// The value in the middle; of an even number the lower, so that it is one that occurred.
double middle_of(std::vector<double> values);

// `draws` of the experiment's routing; with one draw p50 = mean is the step as simulated, noise or not. Of several the median is
// the lower of the two in the middle, so that it is one step: phases, breakdown and trace are of that draw. p10 and p90 are
// the predictive interval of sim/interval.h.
Forecast predict(const Experiment& experiment);
// The step of every draw, in order, and nothing else.
std::vector<Seconds> steps_of_draws(const Experiment& experiment);

// The same, with the step that it is about: `timeline` ends at `forecast.step.p50`.
struct Prediction {
    Forecast forecast;
    TaskGraph graph;
    Timeline timeline;
};
Prediction predict_step(const Experiment& experiment);

// Predicts every comparison that was not refused; what prediction refuses is noted there, and the rest goes on.
void predict_all(std::vector<Comparison>& comparisons, const std::function<void(std::string_view)>& progress = {});

// Tokens that all ranks together work through in a step.
double tokens_per_step(const Experiment& experiment);
// Useful arithmetic of a step of so many tokens; nothing computed twice.
Flops model_flops(const Experiment& experiment, double tokens);

// Memory per rank (peak over ranks) of the experiment with this routing.
MemoryUse memory_use(const Experiment& experiment, const Routing& routing);

}  // namespace stepcast
