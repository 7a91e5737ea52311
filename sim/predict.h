// Experiment -> Forecast: build, price, simulate; Monte Carlo over routings and jitter when asked for.
#pragma once

#include <vector>

#include "model/answers/forecast.h"
#include "model/experiment.h"
#include "sim/engine/simulate.h"

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

// Tokens that all ranks together work through in a step.
double tokens_per_step(const Experiment& experiment);
// Useful arithmetic of a step of so many tokens; nothing computed twice.
Flops model_flops(const Experiment& experiment, double tokens);

// Memory per rank (peak over ranks) of the experiment with this routing.
MemoryUse memory_use(const Experiment& experiment, const Routing& routing);
// Different routings that the draws have.
int drawn_routings(const Experiment& experiment);
// Of the fullest draw: a training meets them all.
MemoryUse fullest_memory(const Experiment& experiment);

}  // namespace stepcast
