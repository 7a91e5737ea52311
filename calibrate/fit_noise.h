// The noise of a cluster (Noise in model/cluster.h) from the recorded steps of one run: how often bursts and stragglers
// come and how long they last. The medians of a step are other fits' business.
#pragma once

#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/records/measurements.h"

namespace stepcast {

// The steady steps of a run, one value a step: `step`, and the phases of the reporting rank where they were recorded.
struct StepSeries {
    std::string run_id;
    int ranks = 0;
    std::vector<double> step, forward, backward, optimizer;  // seconds; phases empty or as long as `step`
    friend bool operator==(const StepSeries&, const StepSeries&) = default;
};
// Of the run with most steps; empty when none has a series of phase step.
StepSeries longest_series(const std::vector<Sample>& samples);

struct NoiseFit {
    Cluster cluster;                          // `start` with its noise, told in `fitted` but for date and sources
    std::vector<FittedParameter> parameters;  // of the noise alone
    std::vector<std::string> findings;        // what was seen, one line each
    friend bool operator==(const NoiseFit&, const NoiseFit&) = default;
};
// Throws ConfigError with fewer than `fewest_noise_steps` steps.
NoiseFit fit_noise(const Cluster& start, const StepSeries& series);
inline constexpr std::size_t fewest_noise_steps = 50;

std::string describe(const NoiseFit& fit);

}  // namespace stepcast
