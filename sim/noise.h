// Random noise in the costs of a step: jitter, bursts of slow kernels and late ranks (Noise in
// model/cluster.h). A Monte Carlo run simulates each draw with the same engine.
#pragma once

#include <random>

#include "model/experiment.h"
#include "sim/engine/simulate.h"

namespace stepcast {

std::mt19937_64 random_of(const Experiment& experiment, int draw);

// of the kinds drawn here; noise.step, common to a whole step, counts in sim/interval.h
bool has_noise(const Noise& noise);
// bursts and stragglers happen at a time within the step
bool needs_timeline(const Noise& noise);

// Adds the noise of one draw to the costs of a step. `quiet` is the timeline without noise; it is
// read if needs_timeline().
void add_noise(const TaskGraph& graph, const Cluster& cluster, const Timeline& quiet,
               std::mt19937_64& random, Costs& costs);

}  // namespace stepcast
