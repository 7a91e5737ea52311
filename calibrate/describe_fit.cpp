// Summaries of a fit: errors of its cases, and the table to read.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "calibrate/fit.h"
#include "model/records/measurements.h"

namespace stepcast {
namespace {

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
                       p.value == p.prior ? "kept prior" : "as far as its prior lets it");
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

HeldOutError summary_of(const std::vector<double>& log_errors, const std::string& method,
                        const std::string& kind) {
    HeldOutError sum{kind, method};
    sum.samples = static_cast<int>(log_errors.size());
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
    for (std::size_t i = 0; i < cases.size(); ++i) {
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
