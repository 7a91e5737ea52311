// Predicted against measured, as numbers: one struct that tables, JSON and plots show.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/results/comparison.h"
#include "sim/results/kernel_comparison.h"

namespace stepcast {

// Errors are (predicted p50 - measured) / measured; bias is their signed mean. inside_interval:
// share of predicted cases whose measurement lies in p10..p90. rank_correlation: Spearman's within
// each model (series of a source) of at least three cases, averaged with the numbers of cases as
// weights; empty if no model has three. regret: mean over the decisions that the cases contain;
// empty without one. peak_mape: mean error of the predicted peak memory over the with_peak cases
// that state a measured one.
struct CompareSummary {
    int cases = 0, predicted = 0, refused = 0;
    double mape = 0, median_ape = 0, p90_ape = 0, bias = 0, inside_interval = 0;
    int with_interval = 0,
        // predicted cases whose forecast has a spread; how many of them were measured inside it
        inside_of_them = 0;
    std::optional<double> rank_correlation;
    std::optional<double> regret;
    int decisions = 0, best_chosen = 0;  // best_chosen: decisions without regret
    double worst_regret = 0;
    std::string worst_case;
    double worst_error = 0;
    int with_peak = 0;
    double peak_mape = 0;
    friend bool operator==(const CompareSummary&, const CompareSummary&) = default;
};

// Throws ConfigError naming the case if a predicted one has no measured step above 0.
CompareSummary summarise(const std::vector<Comparison>& comparisons);

// The predicted cases with this evidence.
std::vector<Comparison> of_evidence(const std::vector<Comparison>& comparisons, Evidence evidence);
std::vector<KernelComparison> of_evidence(const std::vector<KernelComparison>& kernels,
                                          Evidence evidence);
inline constexpr std::array all_evidence{Evidence::fitted, Evidence::seen, Evidence::unseen};

// What errors of such cases are worth: "fitted on (errors of the fit, no evidence for other runs)".
std::string meaning_of(Evidence evidence);

// "measured inside p10..p90: 7 of 9 (2 more without an interval)".
std::string inside_count_text(const CompareSummary& summary);

double relative_error(const Comparison& comparison);  // signed; needs a forecast
bool inside_interval(const Comparison& comparison);   // needs a forecast

// signed; empty without a forecast or a measured peak
// The forecast's peak of what the row measured: of tensors, or of what the allocator reserved. The
// row must have a forecast.
Bytes compared_peak(const Comparison& comparison);
std::optional<double> peak_error(const Comparison& comparison);

// The predicted time of what the log's backward timer covers ([recorded] backward); needs a
// forecast.
Seconds predicted_backward(const Comparison& comparison);

// A measured phase that the forecast has too: a phase of the step, or the kernels of one name on
// one rank.
struct PhaseComparison {
    std::string name;
    int rank = -1;
    Seconds measured, predicted;
    friend bool operator==(const PhaseComparison&, const PhaseComparison&) = default;
};
std::vector<PhaseComparison> phase_comparisons(const Comparison& comparison);

// Share of the recorded steps that lie inside p10..p90; empty without a forecast or a recorded
// series.
std::optional<double> series_inside(const Comparison& comparison);

double mean(const std::vector<double>& values);

// Spearman's rank correlation, with average ranks for ties; empty for fewer than two values or
// constant ones.
std::optional<double> spearman(const std::vector<double>& a, const std::vector<double>& b);

// One training job of a source that was measured under at least two mappings: the same workload,
// global batch, device and number of ranks, split differently. It tells how much time a planner
// would have lost by choosing the predicted best mapping. Several rows of one mapping count once,
// with their mean measured step.
struct Decision {
    std::string source, model;
    int ranks = 0, mappings = 0;
    Seconds best;  // measured step of the fastest mapping
    // measured step of the mapping predicted to be fastest; of equal predictions, the slowest
    Seconds chosen;
    friend bool operator==(const Decision&, const Decision&) = default;
};
double regret(const Decision& decision);  // chosen / best - 1

// In the order of their first rows. Ignores cases without a forecast.
std::vector<Decision> decisions_of(const std::vector<Comparison>& comparisons);

// Sentences that all reports share.

}  // namespace stepcast
