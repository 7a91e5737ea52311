// Fits the noise of a cluster (Noise in model/cluster.h) to the recorded steps of one run: how
// often bursts and stragglers come and how long they last. Other fits tell the medians of a step.
#pragma once

#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/records/measurements.h"

namespace stepcast {

// The steady steps of a run with one value for each step: `step`, and the phases of the reporting
// rank where they were recorded.
struct StepSeries {
    std::string run_id;
    int ranks = 0;
    // seconds; the phases are empty or as long as `step`
    std::vector<double> step, forward, backward, optimizer;
    friend bool operator==(const StepSeries&, const StepSeries&) = default;
};
// The series of the run with most steps; empty when no run has a series of phase step.
StepSeries longest_series(const std::vector<Sample>& samples);

struct NoiseFit {
    // `start` with the fitted noise; `fitted` is filled except date and sources
    Cluster cluster;
    std::vector<FittedParameter> parameters;  // those of the noise only
    std::vector<std::string> findings;        // in words, one line each
    friend bool operator==(const NoiseFit&, const NoiseFit&) = default;
};
// Throws ConfigError with fewer than `fewest_noise_steps` steps.
NoiseFit fit_noise(const Cluster& start, const StepSeries& series);
inline constexpr std::size_t fewest_noise_steps = 50;

std::string describe(const NoiseFit& fit);

}  // namespace stepcast
