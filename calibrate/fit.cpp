#include "calibrate/fit.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>

#include "calibrate/fit_parameter.h"
#include "calibrate/least_squares.h"
#include "model/base/errors.h"
#include "model/records/provenance.h"

namespace stepcast {
namespace {

// of a logarithm: beyond it not even the order of magnitude is known
constexpr double largest_determined_error = 0.5;
constexpr double first_noise = 0.05, least_noise = 1e-4;
constexpr int reweightings = 12, reweightings_without_a_group = 3;

// Huber's loss: residuals beyond `limit` sigmas count linearly. `counted` is the mean square of
// standard normal residuals cut off at `limit`: 0.185 = 1 - P - 2 L phi(L) + L^2 P with L = 0.5, P
// = P(|z| > L) = 0.617, phi(L) = 0.352. The 0.92 at 2 sigmas counts as 1.
struct Loss {
    double limit, counted;
};
constexpr Loss few_outliers{2, 1}, many_outliers{0.5, 0.185};

// The problem to solve for x[j] = log(value / prior) of every parameter; parameters that are not
// free stay at 0.
struct Problem {
    // the cluster, then its sisters; without `fitted`, as every evaluation copies them
    std::vector<Cluster> starts;
    const std::vector<ScaledParameter>& parameters;
    const std::vector<FitCase>& cases;
    std::vector<bool> in_data;  // per case: false = held out
    std::vector<bool> free;     // per parameter
    Loss loss = few_outliers;
    double noise = first_noise;
    Vector weights;  // per case in the data: Huber's weights of the last iteration
};

std::vector<std::size_t> chosen(const std::vector<bool>& flags) {
    std::vector<std::size_t> ids;
    for (std::size_t i = 0; i < flags.size(); ++i)
        if (flags[i]) ids.push_back(i);
    return ids;
}

using Machines = std::vector<Cluster>;

bool is_of(const ScaledParameter& parameter, std::size_t machine) {
    return parameter.machine < 0 || static_cast<std::size_t>(parameter.machine) == machine;
}

Machines machines_at(const Problem& p, const Vector& x) {
    Machines machines;
    for (const Cluster& start : p.starts) {
        std::vector<ScaledParameter> own;
        Vector at;
        for (std::size_t j = 0; j < x.size(); ++j) {
            if (!is_of(p.parameters[j], machines.size())) continue;
            own.push_back(p.parameters[j]);
            at.push_back(x[j]);
        }
        machines.push_back(with_values(start, own, at));
    }
    return machines;
}

double log_ratio(const FitCase& c, const Machines& machines) {
    const Seconds predicted = c.predict(machines.at(c.machine));
    if (!(predicted.si() > 0) || !std::isfinite(predicted.si()))
        throw std::logic_error(fmt::format("fit: case {} predicts {} s", c.name, predicted.si()));
    return std::log(predicted / c.measured);
}

// Log ratios of the cases in the data, each divided by its spread.
Vector log_ratios(const Problem& p, const Vector& x) {
    const Machines machines = machines_at(p, x);
    Vector out;
    for (std::size_t i : chosen(p.in_data))
        out.push_back(log_ratio(p.cases[i], machines) / p.cases[i].spread);
    return out;
}

// log_ratios(), weighted and in units of the noise.
Vector scaled_ratios(const Problem& p, const Vector& x) {
    Vector out = log_ratios(p, x);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] *= std::sqrt(p.weights[i]) / p.noise;
    return out;
}

Vector put(const std::vector<std::size_t>& ids, const Vector& some, Vector all) {
    for (std::size_t k = 0; k < ids.size(); ++k) all[ids[k]] = some[k];
    return all;
}

// Noise and weights by Huber's proposal 2: a residual beyond the limit counts as the limit, so that
// an outlier does not widen the noise.
void reweigh(Problem& p, const Vector& residuals, double unknowns) {
    double squares = 0;
    for (std::size_t i = 0; i < residuals.size(); ++i) {
        const double counted = std::min(std::abs(residuals[i]), p.loss.limit * p.noise);
        squares += counted * counted;
    }
    const double freedom = static_cast<double>(residuals.size()) - unknowns;
    if (freedom >= 0.5)
        p.noise = std::max(least_noise, std::sqrt(squares / (p.loss.counted * freedom)));
    for (std::size_t i = 0; i < residuals.size(); ++i)
        p.weights[i] =
            std::min(1.0, p.loss.limit * p.noise / std::max(1e-300, std::abs(residuals[i])));
}

// Iteratively reweighted least squares: each iteration solves with fixed weights and noise, then
// takes both from the new residuals.
Vector solve(Problem& p, Vector x, int iterations, const Progress& progress) {
    const std::vector<std::size_t> free = chosen(p.free), rows = chosen(p.in_data);
    Vector lower, upper, start, precision;
    for (std::size_t j : free) {
        lower.push_back(p.parameters[j].lower);
        upper.push_back(p.parameters[j].upper);
        start.push_back(x[j]);
        precision.push_back(1 / (p.parameters[j].sigma * p.parameters[j].sigma));
    }
    if (p.weights.size() != rows.size()) p.weights.assign(rows.size(), 1.0);
    for (int iteration = 0; iteration < iterations; ++iteration) {
        const auto scaled = [&](const Vector& some) {
            if (progress)
                progress(fmt::format("fitting {} constants to {} cases: pass {}", free.size(),
                                     rows.size(), iteration + 1));
            return scaled_ratios(p, put(free, some, x));
        };
        const auto with_priors = [&](const Vector& some) {
            Vector out = scaled(some);
            for (std::size_t k = 0; k < some.size(); ++k)
                out.push_back(some[k] / p.parameters[free[k]].sigma);
            return out;
        };
        const Vector before = start;
        start = minimise(with_priors, rows.size() + free.size(), start, lower, upper);
        const Vector residuals = log_ratios(p, put(free, start, x));
        const double last_noise = p.noise;
        reweigh(p, residuals, effective_unknowns(jacobian(scaled, rows.size(), start), precision));
        double moved = std::abs(std::log(p.noise / last_noise));
        for (std::size_t k = 0; k < start.size(); ++k)
            moved = std::max(moved, std::abs(start[k] - before[k]));
        if (iteration > 0 && moved < 1e-3) break;
    }
    return put(free, start, x);
}

// Derivatives of log(predicted) with respect to log(value), in units of the noise; for all
// parameters, free or not.
DenseMatrix sensitivities(const Problem& p, const Vector& x) {
    return jacobian([&](const Vector& at) { return scaled_ratios(p, at); },
                    chosen(p.in_data).size(), x);
}

DenseMatrix columns_of(const DenseMatrix& m, const std::vector<std::size_t>& ids) {
    DenseMatrix part{m.rows, ids.size(), Vector(m.rows * ids.size())};
    for (std::size_t r = 0; r < m.rows; ++r)
        for (std::size_t k = 0; k < ids.size(); ++k) part.at(r, k) = m.at(r, ids[k]);
    return part;
}

bool is_determined(double data_error, const ScaledParameter& parameter) {
    return data_error < std::min(largest_determined_error, parameter.sigma);
}

// The free parameters to give back next. Among those that the data do not determine, first the ones
// with the tightest priors; of these the worst determined, together with any that are about as
// badly determined: of a collinear pair nothing tells which one the data mean.
std::vector<std::size_t> least_determined(const Problem& p, const Vector& data_errors) {
    std::vector<std::size_t> unknown;
    for (const std::size_t j : chosen(p.free))
        if (!is_determined(data_errors[j], p.parameters[j])) unknown.push_back(j);
    double tightest = std::numeric_limits<double>::infinity(), worst = 0;
    for (const std::size_t j : unknown) tightest = std::min(tightest, p.parameters[j].sigma);
    std::erase_if(unknown, [&](std::size_t j) { return p.parameters[j].sigma > 1.5 * tightest; });
    for (const std::size_t j : unknown) worst = std::max(worst, data_errors[j]);
    std::erase_if(unknown, [&](std::size_t j) {
        return std::isinf(worst) ? !std::isinf(data_errors[j]) : data_errors[j] < 0.8 * worst;
    });
    return unknown;
}

// Solves, gives parameters that the data do not determine back to their priors, and repeats until
// all free ones are determined.
Vector solve_what_is_determined(Problem& p, Vector& data_errors, double& condition_all,
                                Undetermined undetermined, const Progress& progress) {
    Vector x(p.parameters.size(), 0.0);
    data_errors.assign(x.size(), 0.0);
    for (bool first = true;; first = false) {
        x = solve(p, x, reweightings, progress);
        const DenseMatrix all = sensitivities(p, x);
        if (first) condition_all = scaled_condition(all);
        const std::vector<std::size_t> free = chosen(p.free);
        const Vector errors = standard_errors(columns_of(all, free), {});
        for (std::size_t k = 0; k < free.size(); ++k) data_errors[free[k]] = errors[k];
        if (undetermined == Undetermined::keep) return x;
        const std::vector<std::size_t> given_back = least_determined(p, data_errors);
        if (given_back.empty()) return x;
        for (std::size_t j : given_back) {
            p.free[j] = false;
            x[j] = 0;
            if (progress)
                progress(fmt::format("{}: not determined, back to its prior", p.parameters[j].key));
        }
    }
}

// log(predicted / measured) of every case by a fit to the other groups; empty when there is only
// one group.
Vector leave_one_out(Problem p, const Vector& x, const Progress& progress) {
    Vector errors(p.cases.size(), 0.0);
    std::set<std::string> groups;
    for (const FitCase& c : p.cases) groups.insert(c.group);
    if (groups.size() < 2) return {};
    for (const std::string& group : groups) {
        if (progress) progress(fmt::format("leave out {}", group));
        for (std::size_t i = 0; i < p.cases.size(); ++i) p.in_data[i] = p.cases[i].group != group;
        const Machines without =
            machines_at(p, solve(p, x, reweightings_without_a_group, progress));
        for (std::size_t i = 0; i < p.cases.size(); ++i)
            if (!p.in_data[i]) errors[i] = log_ratio(p.cases[i], without);
    }
    return errors;
}

void check(const std::vector<FitParameter>& parameters, const std::vector<FitCase>& cases) {
    if (cases.empty()) throw ConfigError("fit: no measured case; expected at least one");
    std::set<std::string> keys;
    for (const FitParameter& parameter : parameters)
        if (!keys.insert(fmt::format("{} {}", parameter.machine, parameter.key)).second)
            throw ConfigError(fmt::format("fit: {} is listed twice", parameter.key));
    for (const FitCase& c : cases) {
        if (!(c.measured.si() > 0) || !std::isfinite(c.measured.si()))
            throw ConfigError(fmt::format("fit: {}: measured {} s; expected a time above 0", c.name,
                                          c.measured.si()));
        if (!(c.spread > 0))
            throw std::logic_error(fmt::format("fit: {}: spread {}", c.name, c.spread));
    }
}

// Records in the cluster what was fitted and with what errors.
void state_fit(const std::vector<FitCase>& cases, FitResult& result) {
    Fitted& fitted = result.cluster.fitted.emplace();
    fitted.samples = static_cast<int>(cases.size());
    for (const FitCase& c : cases) fitted.rows.push_back(c.row);
    fitted.rows = joined(std::move(fitted.rows), {});
    fitted.condition = result.condition;
    fitted.errors = result.held_out_errors;
    for (const ParameterReport& report : result.parameters)
        fitted.parameters.push_back(report.parameter);
}

void report_cases(const std::vector<FitCase>& cases, const Vector& fitted_errors,
                  const Vector& held_out, FitResult& result) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
        const auto times_measured = [&](double log_error) {
            return std::exp(log_error) * cases[i].measured;
        };
        result.cases.push_back({cases[i].name, cases[i].kind, cases[i].measured,
                                times_measured(fitted_errors[i]),
                                held_out.empty() ? Seconds(0) : times_measured(held_out[i])});
    }
}

}  // namespace

FitResult fit(const Cluster& start, const std::vector<FitParameter>& parameters,
              const std::vector<FitCase>& cases, const Progress& progress,
              Undetermined undetermined, const std::vector<Cluster>& sisters, Outliers outliers) {
    check(parameters, cases);
    std::vector<ScaledParameter> scaled;
    for (const FitParameter& parameter : parameters) scaled.push_back(scale(parameter));
    Problem p{{start},
              scaled,
              cases,
              std::vector<bool>(cases.size(), true),
              std::vector<bool>(parameters.size(), true),
              outliers == Outliers::many ? many_outliers : few_outliers,
              first_noise,
              {}};
    p.starts.insert(p.starts.end(), sisters.begin(), sisters.end());
    for (Cluster& machine : p.starts) machine.fitted.reset();
    FitResult result;
    Vector data_errors;
    const Vector x =
        solve_what_is_determined(p, data_errors, result.condition_all, undetermined, progress);

    const DenseMatrix all = sensitivities(p, x);
    Vector precision;
    for (const ScaledParameter& parameter : scaled)
        precision.push_back(1 / (parameter.sigma * parameter.sigma));
    const Vector errors = standard_errors(all, precision);
    result.condition = scaled_condition(columns_of(all, chosen(p.free)));
    result.noise = p.noise;
    for (std::size_t j = 0; j < scaled.size(); ++j) {
        if (!is_of(scaled[j], 0)) continue;
        const bool used = p.free[j], determined = used && is_determined(data_errors[j], scaled[j]);
        const bool at_bound =
            used && (x[j] - scaled[j].lower < 1e-6 || scaled[j].upper - x[j] < 1e-6);
        result.parameters.push_back(
            {{scaled[j].key, used ? value_text(scaled[j], x[j]) : parameters[j].prior,
              parameters[j].prior, used ? errors[j] : scaled[j].sigma, determined},
             data_errors[j],
             at_bound});
    }
    result.cluster = start;
    for (const ParameterReport& report : result.parameters)
        result.cluster = with_text(result.cluster, report.parameter.key, report.parameter.value);
    Vector fitted_errors;
    Machines found = machines_at(p, x);
    found.front() = result.cluster;
    for (const FitCase& c : cases) fitted_errors.push_back(log_ratio(c, found));
    result.fitted_errors = errors_by_kind(cases, fitted_errors, "fitted");
    const Vector held_out = leave_one_out(p, x, progress);
    if (!held_out.empty())
        result.held_out_errors = errors_by_kind(cases, held_out, "leave-one-out");
    report_cases(cases, fitted_errors, held_out, result);
    state_fit(cases, result);
    return result;
}

}  // namespace stepcast
