#include "calibrate/fit.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <set>

#include "calibrate/fit_parameter.h"
#include "calibrate/solver.h"
#include "measured/medians.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/base/stamp.h"
#include "model/records/measurements.h"
#include "model/records/provenance.h"

namespace stepcast {
namespace {

// of a logarithm: beyond it not even the order of magnitude is known
constexpr double largest_determined_error = 0.5;
constexpr double least_noise = 1e-4;
constexpr int rounds_without_a_group = 3;

// With a limit of half a sigma, P = P(|z| > L) = 0.617 and phi(L) = 0.352 make 0.185 of a variance;
// the 0.92 at two sigmas counts as 1.
RobustLoss loss_of(Outliers outliers) {
    return outliers == Outliers::many ? RobustLoss{0.5, 0.185, 0, 0, least_noise}
                                      : RobustLoss{2, 1, 0, 0, least_noise};
}

std::vector<std::size_t> chosen(const std::vector<bool>& flags) {
    std::vector<std::size_t> ids;
    for (const std::size_t i : indices_of(flags))
        if (flags[i]) ids.push_back(i);
    return ids;
}

Vector put_at(const std::vector<std::size_t>& ids, const Vector& some, Vector all) {
    for (const std::size_t k : indices_of(ids)) all[ids[k]] = some[k];
    return all;
}

using Machines = std::vector<Cluster>;

double log_ratio(const FitCase& c, const Machines& machines) {
    const Seconds predicted = c.predict(machines.at(c.machine));
    if (!(predicted.si() > 0) || !std::isfinite(predicted.si()))
        throw std::logic_error(fmt::format("fit: case {} predicts {} s", c.name, predicted.si()));
    return std::log(predicted / c.measured);
}

// Cases and parameters as rows and unknowns: x[j] = log(value / prior) of every parameter; those
// that are not free stay at 0.
class Unknowns {
public:
    Unknowns(const Cluster& start, const FitPlan& plan, const Progress& progress)
        : cases(chosen(plan.cases, plan.share, false)),
          parameters(scaled(plan)),
          free(parameters.size(), true),
          in_data_(0),
          loss_(loss_of(plan.outliers)),
          progress_(progress) {
        append(cases, chosen(plan.beside, plan.share, false));
        in_data_.assign(cases.size(), true);
        starts_.push_back(start);
        for (const SisterChip& chip : plan.sisters) starts_.push_back(seen_as(start, chip));
        // every evaluation copies them
        for (Cluster& machine : starts_) machine.fitted.reset();
    }

    [[nodiscard]] Machines machines_at(const Vector& x) const {
        Machines machines;
        for (const Cluster& start : starts_) {
            std::vector<ScaledParameter> own;
            Vector at;
            for (const std::size_t j : indices_of(x)) {
                if (!is_of(parameters[j], machines.size())) continue;
                own.push_back(parameters[j]);
                at.push_back(x[j]);
            }
            machines.push_back(with_values(start, own, at));
        }
        return machines;
    }

    // The most probable x; the others than the free ones keep theirs.
    Vector solved(const Vector& x) {
        const std::vector<std::size_t> ids = chosen(free);
        const bool all = std::ranges::count(in_data_, false) == 0;
        Problem problem = of(ids, x);
        problem.search_slopes = [errors = problem.errors](const Vector& some) {
            return forward_differences(errors, some);
        };
        if (noise) problem.first_noise = *noise;
        problem.plain_first = !noise || !all;
        if (!all) problem.most_rounds = rounds_without_a_group;
        Vector start;
        for (const std::size_t j : ids) start.push_back(x[j]);
        const Posterior found = solve(problem, start);
        noise = found.noise;
        return put_at(ids, found.x, x);
    }

    // Derivatives of log(predicted) with respect to log(value), in units of the noise, weighted
    // by the loss; for all parameters, free or not.
    [[nodiscard]] DenseMatrix sensitivities(const Vector& x) const {
        return weighted_slopes(of(every(), x), x, *noise);
    }

    // Errors of all parameters from data and priors.
    [[nodiscard]] Vector errors_at(const Vector& x) const {
        return posterior_at(of(every(), x), x, *noise).sigma;
    }

    // log(predicted / measured) of every case by a fit to the other groups; empty when there is
    // only one group.
    Vector leave_one_out(const Vector& x) {
        Vector errors(cases.size(), 0.0);
        std::set<std::string> groups;
        for (const FitCase& c : cases) groups.insert(c.group);
        if (groups.size() < 2) return {};
        const std::optional<double> all = noise;
        for (const std::string& group : groups) {
            if (progress_) progress_(fmt::format("leave out {}", group));
            for (const std::size_t i : indices_of(cases)) in_data_[i] = cases[i].group != group;
            const Machines without = machines_at(solved(x));
            for (const std::size_t i : indices_of(cases))
                if (!in_data_[i]) errors[i] = log_ratio(cases[i], without);
        }
        in_data_.assign(cases.size(), true);
        noise = all;
        return errors;
    }

    std::vector<FitCase> cases;  // the fitted ones
    std::vector<ScaledParameter> parameters;
    std::vector<bool> free;
    std::optional<double> noise;  // none before the first solution

private:
    // Each machine has its own copy of the parameters in plan.own.
    static std::vector<ScaledParameter> scaled(const FitPlan& plan) {
        std::vector<ScaledParameter> all;
        const auto is_own = [&](const FitParameter& p) {
            return !plan.sisters.empty() && contains(plan.own, p.key);
        };
        for (const FitParameter& p : plan.parameters) {
            all.push_back(scale(p));
            if (is_own(p)) all.back().machine = 0;
        }
        for (std::size_t sister = 1; sister <= plan.sisters.size(); ++sister)
            for (const FitParameter& p : plan.parameters)
                if (is_own(p)) {
                    all.push_back(scale(p));
                    all.back().machine = as_int(sister);
                }
        return all;
    }

    static bool is_of(const ScaledParameter& parameter, std::size_t machine) {
        return parameter.machine < 0 || as_index(parameter.machine) == machine;
    }

    [[nodiscard]] std::vector<std::size_t> every() const {
        return chosen(std::vector<bool>(parameters.size(), true));
    }

    // The problem of these parameters; the others are those of `x`.
    [[nodiscard]] Problem of(const std::vector<std::size_t>& ids, const Vector& x) const {
        Problem problem;
        problem.errors = [this, ids, x](const Vector& some) {
            if (progress_)
                progress_(fmt::format("fitting {} constants to {} cases", ids.size(),
                                      std::ranges::count(in_data_, true)));
            const Machines machines = machines_at(put_at(ids, some, x));
            Vector errors;
            for (const std::size_t i : chosen(in_data_))
                errors.push_back(log_ratio(cases[i], machines) / cases[i].spread);
            return errors;
        };
        problem.slopes = [errors = problem.errors](const Vector& some) {
            return differences(errors, some);
        };
        for (const std::size_t j : ids)
            problem.priors.push_back(
                {0, parameters[j].sigma, parameters[j].lower, parameters[j].upper});
        problem.loss = loss_;
        return problem;
    }

    std::vector<Cluster> starts_;  // the cluster, then its sisters
    std::vector<bool> in_data_;    // per case: false = left out
    RobustLoss loss_;
    const Progress& progress_;
};

DenseMatrix columns_of(const DenseMatrix& m, const std::vector<std::size_t>& ids) {
    DenseMatrix part{m.rows, ids.size(), Vector(m.rows * ids.size())};
    for (std::size_t r = 0; r < m.rows; ++r)
        for (const std::size_t k : indices_of(ids)) part.at(r, k) = m.at(r, ids[k]);
    return part;
}

bool is_determined(double data_error, const ScaledParameter& parameter) {
    return data_error < std::min(largest_determined_error, parameter.sigma);
}

// The free parameters to give back next. Among those that the data do not determine, first the ones
// with the tightest priors; of these the worst determined, together with any that are about as
// badly determined: of a collinear pair nothing tells which one the data mean.
std::vector<std::size_t> least_determined(const Unknowns& u, const Vector& data_errors) {
    std::vector<std::size_t> unknown;
    for (const std::size_t j : chosen(u.free))
        if (!is_determined(data_errors[j], u.parameters[j])) unknown.push_back(j);
    double tightest = std::numeric_limits<double>::infinity(), worst = 0;
    for (const std::size_t j : unknown) tightest = std::min(tightest, u.parameters[j].sigma);
    std::erase_if(unknown, [&](std::size_t j) { return u.parameters[j].sigma > 1.5 * tightest; });
    for (const std::size_t j : unknown) worst = std::max(worst, data_errors[j]);
    std::erase_if(unknown, [&](std::size_t j) {
        return std::isinf(worst) ? !std::isinf(data_errors[j]) : data_errors[j] < 0.8 * worst;
    });
    return unknown;
}

// Solves, gives parameters that the data do not determine back to their priors, and repeats until
// all free ones are determined.
Vector solve_what_is_determined(Unknowns& u, Vector& data_errors, double& condition_all,
                                Undetermined undetermined, const Progress& progress) {
    Vector x(u.parameters.size(), 0.0);
    data_errors.assign(x.size(), 0.0);
    for (bool first = true;; first = false) {
        x = u.solved(x);
        const DenseMatrix all = u.sensitivities(x);
        if (first) condition_all = scaled_condition(all);
        const std::vector<std::size_t> free = chosen(u.free);
        const Vector errors = standard_errors(columns_of(all, free));
        for (const std::size_t k : indices_of(free)) data_errors[free[k]] = errors[k];
        if (undetermined == Undetermined::keep) return x;
        const std::vector<std::size_t> given_back = least_determined(u, data_errors);
        if (given_back.empty()) return x;
        for (std::size_t j : given_back) {
            u.free[j] = false;
            x[j] = 0;
            if (progress)
                progress(fmt::format("{}: not determined, back to its prior", u.parameters[j].key));
        }
    }
}

void check(const FitPlan& plan) {
    if (plan.cases.empty()) throw ConfigError("fit: no measured case; expected at least one");
    std::set<std::string> keys;
    for (const FitParameter& parameter : plan.parameters)
        if (!keys.insert(parameter.key).second) refuse("fit: {} is listed twice", parameter.key);
    for (const auto* cases : {&plan.cases, &plan.beside})
        for (const FitCase& c : *cases) {
            if (!(c.measured.si() > 0) || !std::isfinite(c.measured.si()))
                refuse("fit: {}: measured {} s; expected a time above 0", c.name, c.measured.si());
            if (!(c.spread > 0))
                throw std::logic_error(fmt::format("fit: {}: spread {}", c.name, c.spread));
        }
}

// Records in the cluster what was fitted.
void state_fit(const std::vector<FitCase>& cases, FitResult& result) {
    Fitted& fitted = result.cluster.fitted.emplace();
    for (const FitCase& c : cases) fitted.rows.push_back(c.row);
    fitted.rows = joined(std::move(fitted.rows), {});
    fitted.condition = result.condition;
    for (const ParameterReport& report : result.parameters)
        fitted.parameters.push_back(report.parameter);
}

void report_parameters(const Unknowns& u, const FitPlan& plan, const Vector& x,
                       const Vector& data_errors, FitResult& result) {
    const DenseMatrix all = u.sensitivities(x);
    const Vector errors = u.errors_at(x);
    result.condition = scaled_condition(columns_of(all, chosen(u.free)));
    result.noise = *u.noise;
    for (const std::size_t j : indices_of(plan.parameters)) {
        const ScaledParameter& p = u.parameters[j];
        const bool used = u.free[j], determined = used && is_determined(data_errors[j], p);
        const bool at_bound = used && (x[j] - p.lower < 1e-6 || p.upper - x[j] < 1e-6);
        const std::string& prior = plan.parameters[j].prior;
        result.parameters.push_back({{p.key, used ? value_text(p, x[j]) : prior, prior,
                                      used ? errors[j] : p.sigma, determined},
                                     data_errors[j],
                                     at_bound});
    }
    for (const ParameterReport& report : result.parameters)
        result.cluster = with_text(result.cluster, report.parameter.key, report.parameter.value);
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

int part_of(const FitCase& c, std::uint64_t parts) {
    const std::uint64_t hash = fnv1a(c.name);
    return as_int((hash ^ (hash >> 32)) % parts);
}

std::string percent(double fraction) {
    return fraction < 10 ? fmt::format("{:.1f} %", 100 * fraction) : std::string("over 1000 %");
}
std::string power(double condition) {
    return std::isfinite(condition) ? fmt::format("{:.3g}", condition) : std::string("infinite");
}

// Parameters that the data do not determine are back at their prior, or where prior and data
// together put them.
std::string verdict(const ParameterReport& report) {
    const FittedParameter& p = report.parameter;
    if (p.determined)
        return report.at_bound ? "determined, AT ITS BOUND: the formula may be wrong"
                               : "determined";
    return fmt::format("not determined by these data{}, {}",
                       std::isfinite(report.data_error)
                           ? fmt::format(" ({} alone)", percent(std::expm1(report.data_error)))
                           : "",
                       p.value == p.prior ? "kept prior" : "moved within its prior");
}

void add_errors(std::string& text, const std::vector<HeldOutError>& errors) {
    for (const HeldOutError& e : errors) {
        text += fmt::format("  {:<16} {:<14} {:>7} {:>8} {:>8} {:>+8.1f} % {:>+8.1f} %\n", e.kind,
                            e.method, e.samples, percent(e.median), percent(e.mape), 100 * e.bias,
                            100 * e.worst);
    }
}

// The cases of kind "step", which readers look at first.
void add_steps(std::string& text, const std::vector<CaseResult>& cases) {
    for (const CaseResult& c : cases) {
        if (c.kind != "step") continue;
        text += fmt::format("  {:<40} measured {:>12}, fitted {:>+6.1f} %", c.name,
                            to_string(c.measured), 100 * (c.fitted / c.measured - 1));
        if (c.held_out > Seconds(0))
            text += fmt::format(", by a fit without it {:>+6.1f} %",
                                100 * (c.held_out / c.measured - 1));
        text += '\n';
    }
}

}  // namespace

bool is_held_out(const FitCase& c, HeldOutShare share) {
    return share != HeldOutShare::none && part_of(c, static_cast<std::uint64_t>(share)) == 0;
}

int tenth_of(const FitCase& c) { return part_of(c, tenths); }

std::vector<FitCase> chosen(const std::vector<FitCase>& cases, HeldOutShare share, bool held_out) {
    return where(cases, [&](const FitCase& c) { return is_held_out(c, share) == held_out; });
}

Cluster seen_as(Cluster cluster, const SisterChip& sister) {
    cluster.gpu = sister.gpu;
    cluster.power.limit = sister.power.limit;
    cluster.power.idle = sister.power.idle;
    return cluster;
}

FitResult fit(const Cluster& start, const FitPlan& plan, const Progress& progress) {
    check(plan);
    Unknowns u(start, plan, progress);
    FitResult result;
    result.cluster = start;
    Vector data_errors;
    const Vector x =
        solve_what_is_determined(u, data_errors, result.condition_all, plan.undetermined, progress);
    report_parameters(u, plan, x, data_errors, result);
    state_fit(u.cases, result);
    if (plan.share != HeldOutShare::none) {
        judge(result, plan);
        return result;
    }
    Machines found = u.machines_at(x);
    found.front() = result.cluster;
    Vector fitted_errors;
    for (const FitCase& c : u.cases) fitted_errors.push_back(log_ratio(c, found));
    const Vector held_out = u.leave_one_out(x);
    result.fitted_errors = errors_by_kind(u.cases, fitted_errors, "fitted");
    if (!held_out.empty())
        result.held_out_errors = errors_by_kind(u.cases, held_out, "leave-one-out");
    report_cases(u.cases, fitted_errors, held_out, result);
    result.cluster.fitted->samples = as_int(u.cases.size());
    result.cluster.fitted->errors = result.held_out_errors;
    return result;
}

void judge(FitResult& result, const FitPlan& plan) {
    result.fitted_errors =
        errors_on(chosen(plan.cases, plan.share, false), result.cluster, "fitted");
    result.held_out_errors =
        errors_on(chosen(plan.cases, plan.share, true), result.cluster,
                  plan.share == HeldOutShare::fifth ? "held-out fifth" : "held-out tenth");
    Fitted& fitted = *result.cluster.fitted;
    fitted.samples = as_int(plan.cases.size());
    fitted.errors = result.held_out_errors;
    append(fitted.errors, result.fitted_errors);
}

HeldOutError summary_of(const std::vector<double>& log_errors, const std::string& method,
                        const std::string& kind) {
    HeldOutError sum{kind, method};
    sum.samples = as_int(log_errors.size());
    std::vector<double> sizes;
    for (const double log_error : log_errors) {
        const double error = std::expm1(log_error);
        sizes.push_back(std::abs(error));
        sum.mape += std::abs(error) / sum.samples;
        sum.bias += error / sum.samples;
        if (std::abs(error) > std::abs(sum.worst)) sum.worst = error;
    }
    sum.median = sizes.empty() ? 0 : median(sizes);
    return sum;
}

std::vector<HeldOutError> errors_by_kind(const std::vector<FitCase>& cases,
                                         const std::vector<double>& log_errors,
                                         const std::string& method) {
    std::vector<std::pair<std::string, std::vector<double>>> kinds;
    for (const std::size_t i : indices_of(cases)) {
        auto at =
            std::ranges::find(kinds, cases[i].kind, [](const auto& kind) { return kind.first; });
        if (at == kinds.end()) at = kinds.insert(kinds.end(), {cases[i].kind, {}});
        at->second.push_back(log_errors[i]);
    }
    std::vector<HeldOutError> errors;
    for (const auto& [kind, of_kind] : kinds) errors.push_back(summary_of(of_kind, method, kind));
    return errors;
}

std::vector<double> log_errors_on(const std::vector<FitCase>& cases, const Cluster& cluster) {
    std::vector<double> log_errors;
    for (const FitCase& c : cases) log_errors.push_back(std::log(c.predict(cluster) / c.measured));
    return log_errors;
}

std::vector<HeldOutError> errors_on(const std::vector<FitCase>& cases, const Cluster& cluster,
                                    const std::string& method) {
    return errors_by_kind(cases, log_errors_on(cases, cluster), method);
}

std::string describe(const FitResult& result) {
    std::size_t wide = 9;
    for (const ParameterReport& report : result.parameters)
        wide = std::max(wide, report.parameter.key.size());
    std::string text =
        fmt::format("  {:<{}} {:>14} {:>14} {:>9}  \n", "parameter", wide, "value", "prior", "+-");
    for (const ParameterReport& report : result.parameters) {
        const FittedParameter& p = report.parameter;
        text += fmt::format("  {:<{}} {:>14} {:>14} {:>9}  {}\n", p.key, wide, short_value(p.value),
                            short_value(p.prior), percent(p.relative_error), verdict(report));
    }
    text += fmt::format(
        "  condition of the fit: {} (with all parameters free: {}); scatter about the fit {}\n",
        power(result.condition), power(result.condition_all), percent(result.noise));
    text += fmt::format("  {:<16} {:<14} {:>7} {:>8} {:>8} {:>10} {:>10}\n", "errors of", "method",
                        "samples", "median", "mean", "bias", "worst");
    add_errors(text, result.fitted_errors);
    add_errors(text, result.held_out_errors);
    add_steps(text, result.cases);
    if (result.held_out_errors.empty())
        text += "  no held-out errors: all cases are of one group\n";
    return text;
}

}  // namespace stepcast
