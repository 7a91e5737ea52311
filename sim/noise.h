// What repeats is never equal: jitter, bursts of slow kernels and late ranks (Noise in model/cluster.h) as random draws of
// a step's costs. Monte Carlo runs them through the same engine.
#pragma once

#include <random>

#include "model/experiment.h"
#include "sim/engine/simulate.h"

namespace stepcast {

std::mt19937_64 random_of(const Experiment& experiment, int draw);

bool has_noise(const Noise& noise);       // that is drawn: noise.step, common to a step, is of the interval (sim/interval.h)
bool needs_timeline(const Noise& noise);      // bursts and stragglers strike at a time of the step

// Changes the costs of one step as this draw has it. `quiet` is its timeline without noise, if needs_timeline().
void add_noise(const TaskGraph& graph, const Cluster& cluster, const Timeline& quiet, std::mt19937_64& random,
               Costs& costs);

}  // namespace stepcast
