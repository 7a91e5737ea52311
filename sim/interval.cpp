#include "sim/interval.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "measured/medians.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/input/remarks.h"
#include "model/records/measurements.h"
#include "sim/calibration.h"
#include "sim/explain/elasticity.h"

namespace stepcast {
namespace {

// For a constant that no fit determined. Rates are alike on all devices, but times differ by
// factors (sim/explain/elasticity.h), and so may those of kernels that were measured nowhere
// (Unmeasured), whose key is of the workload, and the rates of hosts' optimizers: 35 to 120 GB/s.
double assumed_error(const CostBasis& constant) {
    const bool time = constant.key.starts_with("host.") || constant.key.ends_with("latency") ||
                      constant.key.starts_with("workload.") || constant.key == "host_memory.update";
    return time ? assumed_time_error : assumed_share_error;
}

// The bytes of eager passes (`eager_traffic`, fitted for a framework) scale the time that the
// memory efficiency prices.
bool prices(const std::string& fitted, const std::string& key) {
    return key == (fitted == "eager_traffic" ? "kernel.memory_efficiency" : fitted);
}

// Variance from the fitted constants: the covariance of the fit, weighted by the share of the step
// that each constant prices.
double variance_of_fit(const Fitted& fitted, const std::vector<CostBasis>& basis) {
    const auto& parameters = fitted.parameters;
    std::vector<double> errors(parameters.size(), 0.0);
    for (const std::size_t i : indices_of(parameters))
        for (const CostBasis& b : basis)
            if (parameters[i].determined && prices(parameters[i].key, b.key))
                errors[i] += b.share * parameters[i].relative_error;
    double variance = 0;
    const bool correlated =
        fitted.correlation.size() == parameters.size() * (parameters.size() + 1) / 2;
    for (const std::size_t i : indices_of(errors))
        for (std::size_t j = 0; j <= i; ++j)
            if (i == j)
                variance += errors[i] * errors[i];
            else if (correlated)
                variance += 2 * fitted.correlation[i * (i + 1) / 2 + j] * errors[i] * errors[j];
    return std::max(0.0, variance);
}

bool determined_by(const std::optional<Fitted>& fitted, const std::string& key) {
    return fitted && std::ranges::any_of(fitted->parameters, [&](const FittedParameter& p) {
               return p.determined && p.key == key;
           });
}

// What the constants that no fit determined may be off, as logarithms of the step. Errors of one
// kind are fully correlated, those of two kinds independent.
std::map<std::string, double> errors_of_priors(const Framework& framework,
                                               const std::vector<CostBasis>& basis) {
    std::map<std::string, double> by_kind;
    for (const CostBasis& b : basis)
        if (!b.measured && !determined_by(framework.fitted, b.key))
            by_kind[b.kind] += b.share * assumed_error(b);
    return by_kind;
}

Framework framework_with_effect(const Experiment& e) {
    return framework_has_effect(e) ? e.framework : Framework{};
}

double normal(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// Probability that log(step / median) is below x, if p90 lies `reach` above the median.
double chance(double x, double reach) {
    const double width = reach / p90_of_normal;
    if (width <= 0) return x < 0 ? 0 : x > 0 ? 1 : 0.5;
    return normal(x / width);
}

// Of the readings in equal shares, each with the width of the end that is asked for: a slow tail
// of a fast reading says nothing about p10, and would move it above that reading's median.
double mixture_quantile(const Doubts& d, double reach, double share) {
    std::vector<double> middles{0};
    for (const OtherReading& r : d.readings) middles.push_back(std::log(r.step));
    const auto below = [&](double x) {
        double sum = 0;
        for (const double middle : middles) sum += chance(x - middle, reach);
        return sum / real(middles.size());
    };
    auto [low, high] = std::ranges::minmax(middles);
    low -= 4 * reach + 1e-6, high += 4 * reach + 1e-6;
    for (int i = 0; i < 60; ++i) {
        const double middle = (low + high) / 2;
        (below(middle) < share ? low : high) = middle;
    }
    return (low + high) / 2;
}

}  // namespace

Doubts doubts_of(const Experiment& e, const std::vector<CostBasis>& basis) {
    Doubts d;
    const Framework framework = framework_with_effect(e);
    double variance = 0;
    for (const auto& [kind, error] : errors_of_priors(framework, basis)) variance += error * error;
    if (e.cluster.fitted) variance += variance_of_fit(*e.cluster.fitted, basis);
    if (framework.fitted) variance += variance_of_fit(*framework.fitted, basis);
    d.constants = std::sqrt(variance);
    const Scatter scatter = scatter_of(shipped_scatter(), framework, e.cluster);
    d.faster = scatter.faster;
    d.slower = scatter.slower;
    return d;
}

double error_of_hosts(const Experiment& e, const std::vector<CostBasis>& basis) {
    const auto errors = errors_of_priors(framework_with_effect(e), basis);
    const auto found = errors.find("host");
    return found == errors.end() ? 0 : found->second;
}

Cluster with_fast_hosts(Cluster cluster) {
    cluster.host.load *= std::exp(-p90_of_normal * assumed_time_error);
    return cluster;
}

double hidden_of_hosts(double error, Seconds step, Seconds with_fast_hosts) {
    const double shorter = std::log(step / with_fast_hosts) / p90_of_normal;
    return std::sqrt(std::max(0.0, error * error - shorter * shorter));
}

void reach_of_draws(const std::vector<double>& values, double median, Doubts& doubts) {
    if (!(median > 0)) return;
    const double low = quantile(values, 0.1), high = quantile(values, 0.9);
    doubts.draws_faster = low > 0 ? std::max(0.0, std::log(median / low)) : 0;
    doubts.draws_slower = std::max(0.0, std::log(high / median));
}

std::vector<Reading> readings_of(const Experiment& e) {
    std::vector<Reading> readings = e.readings;
    if (e.workload.kind == Workload::Kind::transformer)
        for (const auto& other : e.framework.may_be)
            readings.push_back({"framework " + e.framework.name + " may be " + other,
                                {{"framework.preset", other}}});
    return readings;
}

std::pair<double, double> reach_of_constants(const Doubts& d) {
    const double shown = std::max(0.0, d.constants * d.constants - d.hidden * d.hidden);
    return {p90_of_normal * std::sqrt(shown), p90_of_normal * d.constants};
}

double reach_of_interval(const Doubts& d, bool slower) {
    const auto [less, more] = reach_of_constants(d);
    const double reach = slower ? std::hypot(more, d.slower, d.draws_slower)
                                : std::hypot(less, d.faster, d.draws_faster);
    const auto end = [&](double share) { return mixture_quantile(d, reach, share); };
    if (slower) return std::max(d.readings.empty() ? reach : end(0.9), d.experts);
    return d.readings.empty() ? -reach : std::min(end(0.1), 0.0);
}

Interval predictive_interval(Seconds median, Seconds mean, const Doubts& d) {
    return {mean, std::exp(reach_of_interval(d, false)) * median, median,
            std::exp(reach_of_interval(d, true)) * median};
}

double distance(const std::vector<CostBasis>& a, const std::vector<CostBasis>& b) {
    std::map<std::string, double> difference;
    for (const CostBasis& c : a) difference[c.kind] += c.share;
    for (const CostBasis& c : b) difference[c.kind] -= c.share;
    double squares = 0;
    for (const auto& [kind, share] : difference) squares += share * share;
    return std::sqrt(squares);
}

double reach_of_pair(const Forecast& a, const Forecast& b, const PairScatter& pairs) {
    const double within = std::hypot(pairs.near, pairs.far * distance(a.basis, b.basis));
    if (a.cluster == b.cluster && a.framework == b.framework) return within;
    const auto half = [](const Forecast& f) { return std::log(f.step.p90 / f.step.p10) / 2; };
    return std::hypot(half(a), half(b));
}

Behind widened(const Behind& by_draws, double reach) {
    const double middle = std::log1p(by_draws.p50);
    Behind found = by_draws;
    found.p10 = std::expm1(middle - std::hypot(reach, middle - std::log1p(by_draws.p10)));
    found.p90 = std::expm1(middle + std::hypot(reach, std::log1p(by_draws.p90) - middle));
    found.distinguishable = by_draws.distinguishable && (found.p10 > 0 || found.p90 < 0);
    return found;
}

}  // namespace stepcast
