// Experiment -> Forecast: build, price, simulate; Monte Carlo over routings and jitter when asked
// for.
#pragma once

#include <vector>

#include "model/experiment.h"
#include "sim/as_run.h"
#include "sim/engine/simulate.h"
#include "sim/results/forecast.h"

namespace stepcast {

// The median. Of an even number of values it is the lower middle one, so that it is a value that
// occurred.
double middle_of(std::vector<double> values);

// Simulates `draws` routings of the experiment. With one draw, p50 = mean is the simulated step.
// With several, p50 is the (lower) median draw, and phases, breakdown and trace are of that draw.
// p10 and p90 are the predictive interval of sim/interval.h.
Forecast predict(const Experiment& experiment);

// Of those who follow no published recipe, p10 and p90 are those of such steps ([[class]] of
// scatter.toml).
Forecast predict(const AsRun& run);

// The same without memory, energy, rates, kernels and notes, for thousands of rows: of `step` and
// its doubts each digit is the same.
Forecast predict_time(const AsRun& run);

// The step time of every draw, in order.
std::vector<Seconds> steps_of_draws(const Experiment& experiment);

// A forecast with the simulated step that it describes: `timeline` ends at `forecast.step.p50`.
struct Prediction {
    Forecast forecast;
    TaskGraph graph;
    Timeline timeline;
};
Prediction predict_step(const Experiment& experiment);
Prediction predict_step(const AsRun& run);

// Tokens that all ranks together process in a step.
double tokens_per_step(const Workload& workload, const Parallelism& parallelism);
double tokens_per_step(const Experiment& experiment);

// FLOPs of a step of `tokens` tokens that the model needs; recomputation does not count.
Flops model_flops(const Experiment& experiment, double tokens);

}  // namespace stepcast
