// Cost parameters of a cluster from measured times: robust least squares on log ratios with priors, and an account of
// what the data could not tell. Knows nothing of models or logs: a case is a measured time and how to predict it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/answers/fit_points.h"
#include "model/cluster.h"
#include "model/progress.h"

namespace stepcast {

// A key below "cluster." that may move. The prior is a belief from elsewhere (datasheet, micro-benchmark); its sigma is
// the standard deviation of the logarithm.
struct FitParameter {
    std::string key;
    std::string prior;  // text with unit, as lower and upper
    double prior_sigma = 0.5;
    std::string lower, upper;
    int machine = -1;  // of which alone it is; below 0: of all
    friend bool operator==(const FitParameter&, const FitParameter&) = default;
};

struct FitCase {
    std::string name;
    std::string kind;   // errors are reported per kind
    std::string group;  // left out together (a run: its cases share conditions that a new run would not)
    Seconds measured;
    std::function<Seconds(const Cluster&)> predict;
    double spread = 1;  // its expected scatter relative to the other cases
    RowHash row = 0;    // the measured row it is (model/records/provenance.h)
    std::size_t machine = 0;  // 0: the cluster that is fitted; else so many'th of its sisters
};

// data_error is what the data say without any prior: one standard deviation of the logarithm, infinite when nothing.
struct ParameterReport {
    FittedParameter parameter;
    double data_error = 0;
    bool at_bound = false;
    friend bool operator==(const ParameterReport&, const ParameterReport&) = default;
};

struct FitResult {
    Cluster cluster;  // with `fitted` filled except date and sources
    std::vector<ParameterReport> parameters;
    std::vector<CaseResult> cases;
    double noise = 0;          // scatter of log(predicted / measured) of a case of spread 1, one standard deviation
    double condition = 0;      // of the scaled normal equations: determined parameters
    double condition_all = 0;  // all parameters, before any was given back to its prior
    std::vector<HeldOutError> fitted_errors;    // on the cases fitted: no evidence of prediction
    std::vector<HeldOutError> held_out_errors;  // each group predicted by a fit without it
    friend bool operator==(const FitResult&, const FitResult&) = default;
};

// What becomes of parameters that the data do not determine.
enum class Undetermined : std::uint8_t { give_back, keep };

// Whether cases lie about the law as errors do, or a part of them far to one side: a library keeps a slow kernel for one shape of ten, and
// a mean that gives way to those is slow for all others.
enum class Outliers : std::uint8_t { few, many };

// Minimises sum of rho(log(predicted / measured) / (spread noise)) + sum of (log(value / prior) / prior_sigma)^2 within the
// bounds; rho is Huber's, linear beyond two sigmas, with many outliers beyond half a one. Noise is estimated from the residuals.
//
// A parameter is determined when its data_error is below min(0.5, prior_sigma). Others are given back to their priors,
// those with the tightest priors and the least determined first, and the rest is fitted anew; the uncertainty of what was given back stays in
// the errors of the rest. With `keep` they stay where priors and data together leave them: for forecasts alone, where no one reads
// the constants one by one. Throws ConfigError for a bad parameter or case.
//
// `sisters` are the machines of cases whose `machine` is above 0: `start` on other chips. The result is of `start` alone.
FitResult fit(const Cluster& start, const std::vector<FitParameter>& parameters, const std::vector<FitCase>& cases,
              const Progress& progress = {}, Undetermined undetermined = Undetermined::give_back,
              const std::vector<Cluster>& sisters = {}, Outliers outliers = Outliers::few);

// In the place of the row with the same key, else behind all.
template <typename Row, typename Key = std::identity>
void put(std::vector<Row>& rows, const Row& row, Key key = {}) {
    const auto same = std::ranges::find(rows, std::invoke(key, row), key);
    if (same == rows.end()) rows.push_back(row);
    else *same = row;
}

// Errors of exp(log_errors), all of one kind.
HeldOutError summary_of(const std::vector<double>& log_errors, const std::string& method, const std::string& kind = "step");

// The same per kind of case, kinds in the order of their first case.
std::vector<HeldOutError> errors_by_kind(const std::vector<FitCase>& cases, const std::vector<double>& log_errors,
                                         const std::string& method);

// log(predicted / measured) of each, as the cluster predicts it; and the same errors of those.
std::vector<double> log_errors_on(const std::vector<FitCase>& cases, const Cluster& cluster);
std::vector<HeldOutError> errors_on(const std::vector<FitCase>& cases, const Cluster& cluster, const std::string& method);

// The table for people: value, prior, error, determined or not, conditions, fitted next to held-out errors.
std::string describe(const FitResult& result);

}  // namespace stepcast
