// Fits cost parameters of a cluster to measured times by robust least squares on log ratios with
// priors, and reports what the data could not determine. It knows nothing of models or logs: a case
// is a measured time and a function that predicts it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/base/lists.h"
#include "model/base/progress.h"
#include "model/cluster.h"
#include "sim/results/fit_points.h"

namespace stepcast {

// A key below "cluster." that a fit may move. The prior is a belief from elsewhere (datasheet,
// micro-benchmark); its sigma is the standard deviation of the value's logarithm.
struct FitParameter {
    std::string key;
    std::string prior;  // text with unit; so are lower and upper
    double prior_sigma = 0.5;
    std::string lower, upper;
    friend bool operator==(const FitParameter&, const FitParameter&) = default;
};

struct FitCase {
    std::string name;
    std::string kind;  // errors are reported per kind
    // cases that are left out together: those of one run share conditions that a new run would not
    std::string group;
    Seconds measured;
    std::function<Seconds(const Cluster&)> predict;
    double spread = 1;        // expected scatter relative to the other cases
    RowHash row = 0;          // hash of the measured row (model/records/provenance.h)
    std::size_t machine = 0;  // 0: the cluster that is fitted; n: the n-th of its sisters
};

// What the fit does with parameters that the data do not determine.
enum class Undetermined : std::uint8_t { give_back, keep };

// few: errors scatter around the law about normally. many: a large part of the cases lies far to
// one side. A library may keep a slow kernel for one shape of ten; a mean that gave way to those
// shapes would be too slow for all others.
enum class Outliers : std::uint8_t { few, many };

// Every tenth (fifth) shape, by a hash of the case's name: all rows of a shape go together, and the
// order of rows does not matter.
enum class HeldOutShare : std::uint8_t { none = 0, fifth = 5, tenth = 10 };
bool is_held_out(const FitCase& c, HeldOutShare share = HeldOutShare::tenth);
inline constexpr int tenths = 10;
int tenth_of(const FitCase& c);  // 0: the tenth that fits hold out

// A chip with the same SMs as the fitted machine's (calibrate/sisters.h).
struct SisterChip {
    Gpu gpu;
    Power power;
};
// The cluster with the chip of its sister; all other constants stay.
Cluster seen_as(Cluster cluster, const SisterChip& sister);

// What one fit does: the parameters that it may move and the cases, of one or few kinds, that tell
// them. A plan without parameters only reports errors.
struct FitPlan {
    std::vector<FitParameter> parameters = {};
    std::vector<FitCase> cases = {};
    // cases that only judge the fit; with none, the cases' groups are left out in turn
    HeldOutShare share = HeldOutShare::none;
    Undetermined undetermined = Undetermined::give_back;
    Outliers outliers = Outliers::few;
    // cases of sisters (FitCase::machine), their chips, and the keys that each machine has for
    // itself
    std::vector<FitCase> beside = {};
    std::vector<SisterChip> sisters = {};
    std::vector<std::string> own = {};
};

// data_error: standard deviation of the value's logarithm from the data alone, without any prior;
// infinite when they say nothing.
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
    // scatter of log(predicted / measured) of a case of spread 1, one standard deviation
    double noise = 0;
    // of the scaled normal equations, with the determined parameters only
    double condition = 0;
    double condition_all = 0;  // all parameters, before any was given back to its prior
    // on the fitted cases, so no evidence of how well the fit predicts
    std::vector<HeldOutError> fitted_errors;
    // of cases held out, or of each group as predicted by a fit without it
    std::vector<HeldOutError> held_out_errors;
    friend bool operator==(const FitResult&, const FitResult&) = default;
};

// Minimises sum of rho(log(predicted / measured) / (spread noise)) + sum of (log(value / prior) /
// prior_sigma)^2 within the bounds. rho is Huber's loss, linear beyond two sigmas, or beyond half a
// sigma with many outliers. The noise is estimated from the residuals.
//
// A parameter is determined when its data_error is below min(0.5, prior_sigma). The fit gives the
// others back to their priors, those with the tightest priors first and among these the least
// determined, and fits the rest anew. The errors of the rest still include the uncertainty of the
// parameters given back. With `keep` all stay where priors and data together put them: only for
// forecasts, where no one reads the constants one by one. Throws ConfigError for a bad parameter or
// case. The result is that of `start` alone, without its sisters.
FitResult fit(const Cluster& start, const FitPlan& plan, const Progress& progress = {});

// Records the errors of the result's cluster on the plan's cases, fitted and held out.
void judge(FitResult& result, const FitPlan& plan);

// The plan's cases that are held out, or those that are fitted.
std::vector<FitCase> chosen(const std::vector<FitCase>& cases, HeldOutShare share, bool held_out);

// Replaces the row with the same key; appends `row` where there is none.
template <typename Row, typename Key = std::identity>
void put(std::vector<Row>& rows, const Row& row, Key key = {}) {
    const auto same = first_with(rows, std::invoke(key, row), key);
    if (!same)
        rows.push_back(row);
    else
        *same = row;
}

// Summary of the relative errors exp(log_errors) - 1, all of one kind of case.
HeldOutError summary_of(const std::vector<double>& log_errors, const std::string& method,
                        const std::string& kind = "step");

// The same for each kind of case, in the order in which the kinds first appear.
std::vector<HeldOutError> errors_by_kind(const std::vector<FitCase>& cases,
                                         const std::vector<double>& log_errors,
                                         const std::string& method);

// log(predicted / measured) of each case with the cluster's constants, and the summary of these
// errors by kind.
std::vector<double> log_errors_on(const std::vector<FitCase>& cases, const Cluster& cluster);
std::vector<HeldOutError> errors_on(const std::vector<FitCase>& cases, const Cluster& cluster,
                                    const std::string& method);

// A table to read: value, prior, error, determined or not, condition numbers, fitted errors next to
// held-out errors.
std::string describe(const FitResult& result);

}  // namespace stepcast
