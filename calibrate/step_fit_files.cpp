#include "calibrate/step_fit_files.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "calibrate/fit.h"
#include "measured/read.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/whole_files.h"
#include "model/experiment.h"
#include "model/machine/cluster_file.h"
#include "model/records/provenance.h"
#include "sim/scatter.h"

namespace stepcast {
namespace {

// The lower triangle of the correlation matrix of the chosen constants, row by row.
std::vector<double> correlations(const StepFit& fit, const std::vector<std::size_t>& chosen) {
    std::vector<double> triangle;
    for (const std::size_t j : chosen)
        for (const std::size_t k : chosen) {
            if (k > j) continue;
            const double r = fit.posterior.covariance.at(j, k) /
                             (fit.posterior.sigma[j] * fit.posterior.sigma[k]);
            triangle.push_back(std::round(r * 1000) / 1000);
        }
    return triangle;
}

// The record of the fit for the framework's constants (`software`) or for the cluster's.
Fitted fitted_of(const StepFit& fit, bool software, const CalibrationRequest& request,
                 const std::vector<Case>& cases) {
    Fitted fitted;
    std::vector<std::size_t> chosen;
    fitted.date = request.date;
    for (const std::string& path : request.measurements)
        fitted.sources.push_back(std::filesystem::path(path).filename().string());
    fitted.samples = as_int(cases.size());
    for (const Case& c : cases) fitted.rows = joined(std::move(fitted.rows), c.rows);
    if (software) {
        std::set<int> ranks;
        for (const Case& c : cases) ranks.insert(rank_count(c.experiment.cluster));
        fitted.ranges = {{ranks_range, real(*ranks.begin()), real(*ranks.rbegin())}};
    }
    for (const std::size_t j : indices_of(fit.constants)) {
        const StepConstant& c = fit.constants[j];
        if (c.framework.empty() == software) continue;
        chosen.push_back(j);
        fitted.parameters.push_back({software ? c.framework : c.key, text_of(c, fit.posterior.x[j]),
                                     text_of(c, 0), fit.posterior.sigma[j], determined(fit, j)});
    }
    fitted.correlation = correlations(fit, chosen);
    fitted.measured = {"step"};
    for (const auto& [by, blocks] : fit.blocks) {
        std::vector<double> errors;
        for (const BlockErrors& block : blocks) append(errors, block.errors);
        if (!errors.empty())
            fitted.errors.push_back(summary_of(errors, left_out_by(to_string(by), blocks.size())));
    }
    fitted.errors.push_back(summary_of(fit.posterior.rows.errors, "fitted"));
    return fitted;
}

// Keeps what an earlier fit recorded for other constants. Target cluster adds steps to a cluster
// file's measurements, and keeps their record.
void keep_fitted(Fitted& fitted, const Fitted& before, FitTarget target) {
    for (const FittedParameter& p : before.parameters)
        if (std::ranges::none_of(fitted.parameters,
                                 [&](const auto& n) { return n.key == p.key; })) {
            fitted.parameters.push_back(p);
            fitted.correlation.clear();
        }
    for (const FittedRange& range : before.ranges) {
        const auto same = first_with(fitted.ranges, range.what, &FittedRange::what);
        if (!same)
            fitted.ranges.push_back(range);
        else
            *same = {range.what, std::min(same->least, range.least),
                     std::max(same->most, range.most)};
    }
    fitted.constants = before.constants;
    fitted.rows = joined(std::move(fitted.rows), before.rows);
    for (const HeldOutError& error : before.errors)
        if (error.kind != "step") fitted.errors.push_back(error);
    for (const std::string& source : before.sources) put(fitted.sources, source);
    if (target != FitTarget::cluster) return;
    fitted.samples += before.samples;
    for (const HeldOutError& error : before.errors)
        // count the steps once
        if (error.kind == "step" && error.method == "fitted") fitted.samples -= error.samples;
    fitted.condition = before.condition;
    fitted.measured = before.measured;
    if (!fitted.measured.empty()) put(fitted.measured, std::string("step"));
}

// The description without what an earlier fit appended.
std::string without_earlier_fit(const std::string& about) {
    return about.substr(
        0, std::min(about.find("; costs fitted to "), about.find("; costs compared with ")));
}

}  // namespace

std::string framework_file(const std::string& out) {
    return std::filesystem::path(out).replace_extension(".framework.toml").string();
}

std::string write_framework_file(const StepFit& fit, const CalibrationRequest& request,
                                 const std::vector<Case>& cases) {
    const Framework& base = cases.front().experiment.framework;
    Experiment holder;
    holder.framework = base;
    holder.framework.fitted = fitted_of(fit, true, request, cases);
    const std::string path =
        request.target == FitTarget::framework ? request.out : framework_file(request.out);
    holder.framework.name = std::filesystem::path(path).stem().string();
    if (holder.framework.name.ends_with(".framework"))
        holder.framework.name.resize(holder.framework.name.size() -
                                     std::string(".framework").size());
    if (base.fitted) keep_fitted(*holder.framework.fitted, *base.fitted, request.target);
    holder.framework.about =
        fmt::format("{}; costs {} {} steps", without_earlier_fit(base.about),
                    fit.base_kept ? "compared with" : "fitted to", cases.size());
    holder.framework.may_be.clear();  // the framework of these steps is known
    // a copy: set_key() moves the experiment
    const std::vector<FittedParameter> parameters = holder.framework.fitted->parameters;
    for (const FittedParameter& p : parameters) set_key(holder, {"framework." + p.key, p.value});
    write_whole({{path, write_framework(holder.framework)}});
    return path;
}

std::string write_cluster_file(const StepFit& fit, const CalibrationRequest& request,
                               const std::vector<Case>& cases) {
    Experiment holder;
    holder.cluster = read_cluster(request.cluster);
    Fitted fitted = fitted_of(fit, false, request, cases);
    for (const FittedParameter& p : fitted.parameters)
        set_key(holder, {"cluster." + p.key, p.value});
    const auto& first = fitted.errors.front();
    constexpr double normal = 0.6745;  // median of the absolute value of a standard normal variable
    holder.cluster.noise.step = std::max(fit.posterior.noise, first.median / normal);
    if (holder.cluster.fitted) keep_fitted(fitted, *holder.cluster.fitted, request.target);
    holder.cluster.fitted = std::move(fitted);
    write_whole({{request.out, write_cluster(holder.cluster)}});
    return request.out;
}

std::string rows_apart(const std::vector<Case>& cases, const std::vector<double>& errors,
                       double limit) {
    std::map<std::string, std::vector<std::size_t>> alike;
    for (const std::size_t i : indices_of(cases)) {
        const Experiment& e = cases[i].experiment;
        const Parallelism& s = e.parallelism;
        alike[fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", e.workload.name,
                          e.workload.layers, e.workload.seq, rank_count(e.cluster), s.tp, s.pp,
                          s.vp, s.cp, s.dp, s.ep, s.sequence_parallel, s.micro_batch, s.zero,
                          s.global_batch, to_string(s.recompute), to_string(e.workload.dtype),
                          to_string(s.moe_system), e.framework.name)]
            .push_back(i);
    }
    std::string text;
    for (const auto& [what, rows] : alike)
        for (std::size_t k = 1; k < rows.size(); ++k)
            if (std::abs(errors[rows[0]] - errors[rows[k]]) > limit)
                text += fmt::format(
                    "rows contradict each other: {} took {}, {} of the same configuration {}\n",
                    cases[rows[0]].case_id, to_string(cases[rows[0]].measured_step),
                    cases[rows[k]].case_id, to_string(cases[rows[k]].measured_step));
    return text;
}

std::string contradictions(const std::vector<Case>& cases, const Posterior& p) {
    constexpr double far = 5;
    const double limit = std::max(least_contradiction, far * p.noise);
    std::string text = rows_apart(cases, p.rows.errors, limit);
    for (const std::size_t i : indices_of(cases))
        if (std::abs(p.rows.errors[i]) > limit)
            text += fmt::format(
                "far from the others, of little weight: {}, measured {}, fitted {:+.0f} %\n",
                cases[i].case_id, to_string(cases[i].measured_step),
                100 * std::expm1(p.rows.errors[i]));
    return text;
}

std::string constants_table(const StepFit& fit) {
    const auto name_of = [](const StepConstant& c) {
        return c.framework.empty() ? c.key : "framework." + c.framework;
    };
    std::string text = fmt::format("  {:<32} {:>12} {:>12} {:>8}  {}\n", "constant", "fitted",
                                   "prior", "error", "");
    for (const std::size_t j : indices_of(fit.constants)) {
        const StepConstant& c = fit.constants[j];
        const char* const verdict = !determined(fit, j) ? "not determined: moved within its prior"
                                    : fit.posterior.at_bound[j]
                                        ? "AT ITS BOUND: another effect may be missing"
                                        : "determined";
        text += fmt::format("  {:<32} {:>12} {:>12} {:>6.0f} %  {}\n", name_of(c),
                            text_of(c, fit.posterior.x[j]), text_of(c, 0),
                            100 * std::expm1(fit.posterior.sigma[j]), verdict);
    }
    for (const StepConstant& c : fit.left)
        text += fmt::format("  {:<32} {:>12} {:>12} {:>8}  {}kept as in the base\n", name_of(c),
                            c.usual ? "0" : text_of(c, 0), text_of(c, 0), "",
                            fit.base_kept ? "" : "not determined: ");
    return text;
}

}  // namespace stepcast
