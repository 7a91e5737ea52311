#include "calibrate/few_shot.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>

#include "calibrate/few_shot_internal.h"
#include "calibrate/step_model.h"
#include "model/errors.h"
#include "model/files/whole_files.h"
#include "model/records/provenance.h"

namespace stepcast {
namespace {

using Progress = std::function<void(std::string_view)>;

// While it lives, Ctrl-C asks for the best so far instead of ending the program.
class Interruptible {
public:
    Interruptible() : before_(std::signal(SIGINT, [](int) { asked = 1; })) { asked = 0; }
    ~Interruptible() { std::signal(SIGINT, before_); }
    Interruptible(const Interruptible&) = delete;
    Interruptible& operator=(const Interruptible&) = delete;
    static bool stopped() { return asked != 0; }

private:
    static inline std::atomic<int> asked = 0;  // several threads ask
    void (*before_)(int);
};

struct Rows {
    std::vector<Case> cases;
    int other_devices = 0;
    std::vector<std::string> refused;
};

// A row of another device that some shipped cluster has is passed over; one of a device that none has is the cluster's.
Rows read_rows(const FewShotRequest& request) {
    Rows rows;
    const std::string device = read_cluster(request.cluster).gpu.name;
    for (const std::string& path : request.measurements) {
        std::vector<Comparison> own = read_comparisons(path, "", request.framework);
        std::vector<Comparison> on = read_comparisons(path, request.cluster, request.framework);
        for (std::size_t i = 0; i < on.size(); ++i) {
            const bool elsewhere = own[i].refused_because.empty() && own[i].what.experiment.cluster.gpu.name != device &&
                                   request.blocks != std::vector<LeftOut>{LeftOut::device};
            if (elsewhere)
                ++rows.other_devices;
            else if (!on[i].refused_because.empty())
                rows.refused.push_back(on[i].refused_because);
            else
                rows.cases.push_back(std::move(on[i].what));
        }
    }
    if (rows.cases.empty())
        throw ConfigError(fmt::format("calibrate: no row can be predicted on {}: {} of other devices, {} refused{}",
                                      request.cluster, rows.other_devices, rows.refused.size(),
                                      rows.refused.empty() ? "" : ": " + rows.refused.front()));
    return rows;
}

// Costs that start from nothing are given their usual value, so that they can be scaled.
void begin_at(std::vector<Case>& cases, const std::vector<StepConstant>& constants) {
    for (Case& c : cases)
        for (const StepConstant& constant : constants) {
            const bool time = constant.key.starts_with("host.");
            const std::string key = constant.key == eager_traffic_key ? constant.key : "cluster." + constant.key;
            set_key(c.experiment, {key, fmt::format("{:.9g}{}", constant.start, time ? " s" : "")});
        }
}

std::string text_of(const StepConstant& c, double x) {
    const double value = c.start * std::exp(std::clamp(x, c.prior.lower, c.prior.upper));
    return c.key.starts_with("host.") ? to_string(Seconds(value)) : fmt::format("{:.5g}", value);
}

constexpr double narrowed = 0.7;  // of its prior's width: then the rows have determined it
bool determined(const StepFit& fit, std::size_t j) {
    return fit.posterior.sigma[j] < narrowed * fit.constants[j].prior.sigma;
}

FittedParameter parameter_of(const StepFit& fit, std::size_t j, const std::string& key) {
    const StepConstant& c = fit.constants[j];
    return {key, text_of(c, fit.posterior.x[j]), text_of(c, 0), fit.posterior.sigma[j], determined(fit, j)};
}

// Lower triangle, row by row, of the constants chosen.
std::vector<double> correlations(const StepFit& fit, const std::vector<std::size_t>& chosen) {
    std::vector<double> triangle;
    for (const std::size_t j : chosen)
        for (const std::size_t k : chosen) {
            if (k > j) continue;
            const double r = fit.posterior.covariance.at(j, k) / (fit.posterior.sigma[j] * fit.posterior.sigma[k]);
            triangle.push_back(std::round(r * 1000) / 1000);
        }
    return triangle;
}

struct Evaluated {
    StepFit fit;
    std::vector<std::pair<LeftOut, std::vector<BlockErrors>>> blocks;
};

Fitted fitted_of(const Evaluated& e, const std::vector<std::size_t>& chosen, bool software,
                 const FewShotRequest& request, const std::vector<Case>& cases) {
    Fitted fitted;
    fitted.date = request.date;
    for (const std::string& path : request.measurements)
        fitted.sources.push_back(std::filesystem::path(path).filename().string());
    fitted.samples = static_cast<int>(cases.size());
    for (const Case& c : cases) fitted.rows = joined(std::move(fitted.rows), c.rows);
    for (const std::size_t j : chosen)
        fitted.parameters.push_back(
            parameter_of(e.fit, j, software ? e.fit.constants[j].framework : e.fit.constants[j].key));
    fitted.correlation = correlations(e.fit, chosen);
    fitted.measured = {"step"};
    for (const auto& [by, blocks] : e.blocks) {
        std::vector<double> errors;
        for (const BlockErrors& block : blocks) errors.insert(errors.end(), block.errors.begin(), block.errors.end());
        if (!errors.empty()) fitted.errors.push_back(summary_of(errors, fmt::format("left out by {}", to_string(by))));
    }
    fitted.errors.push_back(summary_of(e.fit.posterior.rows.errors, "fitted"));
    return fitted;
}

std::string framework_path(const FewShotRequest& request) {
    if (request.target == FitTarget::framework) return request.out;
    const std::filesystem::path out(request.out);
    return (out.parent_path() / (out.stem().string() + ".framework.toml")).string();
}

std::string write_framework_file(const Evaluated& e, const FewShotRequest& request, const std::vector<Case>& cases) {
    const Case& any = cases.front();
    std::vector<std::size_t> chosen;
    for (std::size_t j = 0; j < e.fit.constants.size(); ++j)
        if (!e.fit.constants[j].framework.empty()) chosen.push_back(j);
    Experiment holder;
    holder.framework = any.experiment.framework;
    holder.framework.fitted = fitted_of(e, chosen, true, request, cases);
    const std::string path = framework_path(request);
    holder.framework.name = std::filesystem::path(path).stem().string();
    if (holder.framework.name.ends_with(".framework"))
        holder.framework.name.resize(holder.framework.name.size() - std::string(".framework").size());
    holder.framework.about = fmt::format("{}; costs fitted to {} steps", any.experiment.framework.about, cases.size());
    const std::vector<FittedParameter> parameters = holder.framework.fitted->parameters;  // set_key() moves the experiment
    for (const FittedParameter& p : parameters) set_key(holder, {"framework." + p.key, p.value});
    write_whole({{path, write_framework(holder.framework)}});
    return path;
}

// What else was fitted stays. A cluster that others start from is measured once more, on steps: what was measured of it is so still.
void keep_fitted(Fitted& fitted, const Fitted& before, FitTarget target) {
    for (const FittedParameter& p : before.parameters)
        if (std::ranges::none_of(fitted.parameters, [&](const auto& n) { return n.key == p.key; })) {
            fitted.parameters.push_back(p);
            fitted.correlation.clear();
        }
    fitted.ranges = before.ranges;
    fitted.constants = before.constants;
    fitted.rows = joined(std::move(fitted.rows), before.rows);
    for (const HeldOutError& error : before.errors)
        if (error.kind != "step") fitted.errors.push_back(error);
    for (const std::string& source : before.sources)
        if (std::ranges::find(fitted.sources, source) == fitted.sources.end()) fitted.sources.push_back(source);
    if (target != FitTarget::cluster) return;
    fitted.samples += before.samples;
    for (const HeldOutError& error : before.errors)
        if (error.kind == "step" && error.method == "fitted") fitted.samples -= error.samples;  // steps count once
    fitted.condition = before.condition;
    fitted.measured = before.measured;
    if (!fitted.measured.empty() && std::ranges::find(fitted.measured, "step") == fitted.measured.end()) fitted.measured.emplace_back("step");
}

std::string write_cluster_file(const Evaluated& e, const FewShotRequest& request, const std::vector<Case>& cases) {
    std::vector<std::size_t> chosen;
    for (std::size_t j = 0; j < e.fit.constants.size(); ++j)
        if (e.fit.constants[j].framework.empty()) chosen.push_back(j);
    Experiment holder;
    holder.cluster = read_cluster(request.cluster);
    Fitted fitted = fitted_of(e, chosen, false, request, cases);
    for (const FittedParameter& p : fitted.parameters) set_key(holder, {"cluster." + p.key, p.value});
    const auto& first = fitted.errors.front();
    constexpr double normal = 0.6745;  // median of the absolute of a normal variable
    holder.cluster.noise.step = std::max(e.fit.posterior.noise, first.median / normal);
    if (holder.cluster.fitted) keep_fitted(fitted, *holder.cluster.fitted, request.target);
    holder.cluster.fitted = std::move(fitted);
    write_whole({{request.out, write_cluster(holder.cluster)}});
    return request.out;
}

// Rows of one configuration whose steps differ by more than they scatter, and rows far from all others.
std::string contradictions(const std::vector<Case>& cases, const Posterior& p) {
    constexpr double far = 5, least = 0.25;
    std::map<std::string, std::vector<std::size_t>> alike;
    for (std::size_t i = 0; i < cases.size(); ++i) {
        const Experiment& e = cases[i].experiment;
        const Parallelism& s = e.parallelism;
        alike[fmt::format("{} {} {} {} {} {} {} {} {} {} {}", e.workload.name, e.workload.layers, e.workload.seq, s.tp, s.pp,
                          s.vp, s.cp, s.dp, s.micro_batch, s.zero, s.global_batch) +
              std::string(to_string(s.recompute)) + std::string(to_string(e.workload.dtype))]
            .push_back(i);
    }
    const double limit = std::max(least, far * p.noise);
    std::string text;
    for (const auto& [what, rows] : alike)
        for (std::size_t k = 1; k < rows.size(); ++k)
            if (std::abs(p.rows.errors[rows[0]] - p.rows.errors[rows[k]]) > limit)
                text += fmt::format("rows contradict each other: {} took {}, {} of the same configuration {}\n",
                                    cases[rows[0]].case_id, to_string(cases[rows[0]].measured_step),
                                    cases[rows[k]].case_id, to_string(cases[rows[k]].measured_step));
    for (std::size_t i = 0; i < cases.size(); ++i)
        if (std::abs(p.rows.errors[i]) > limit)
            text += fmt::format("far from the others, of little weight: {}, measured {}, fitted {:+.0f} %\n",
                                cases[i].case_id, to_string(cases[i].measured_step), 100 * std::expm1(p.rows.errors[i]));
    return text;
}

std::string constants_table(const StepFit& fit) {
    std::string text = fmt::format("  {:<32} {:>12} {:>12} {:>8}  {}\n", "constant", "fitted", "prior", "error", "");
    for (std::size_t j = 0; j < fit.constants.size(); ++j) {
        const StepConstant& c = fit.constants[j];
        const char* const verdict = !determined(fit, j)          ? "not determined: as far as its prior lets it"
                                    : fit.posterior.at_bound[j] ? "AT ITS BOUND: another effect may be missing"
                                                                : "determined";
        text += fmt::format("  {:<32} {:>12} {:>12} {:>6.0f} %  {}\n",
                            c.framework.empty() ? c.key : "framework." + c.framework, text_of(c, fit.posterior.x[j]),
                            text_of(c, 0), 100 * std::expm1(fit.posterior.sigma[j]), verdict);
    }
    return text;
}

// A host that is faster than its device has no slope: where the rows tell less of its time than this error, the fit also begins
// where it would hold the device up.
constexpr double felt = 0.25;

StepFit fitted_to(std::vector<Case>& cases, const FewShotRequest& request, const Progress& progress) {
    StepFit fit{step_constants(request.target, cases), {}, {}};
    if (fit.constants.empty()) throw ConfigError("calibrate: the rows exercise no constant of that kind");
    begin_at(cases, fit.constants);
    fit.model = step_rows_model(cases, fit.constants, progress);
    const auto solved = [&](const Vector& start) {
        return most_probable(fit.model, priors_of(fit.constants), std::vector<bool>(cases.size(), true), start, Interruptible::stopped);
    };
    Vector start(fit.constants.size(), 0.0);
    fit.posterior = solved(start);
    for (std::size_t j = 0; j < start.size(); ++j) {
        if (fit.constants[j].key != "host.layer" || fit.posterior.sigma[j] < felt) continue;
        start[j] = 1.5;
        if (Posterior slower = solved(start); slower.cost < fit.posterior.cost) fit.posterior = std::move(slower);
        break;
    }
    return fit;
}

}  // namespace

std::vector<PriorBelief> priors_of(const std::vector<StepConstant>& constants) {
    std::vector<PriorBelief> priors;
    for (const StepConstant& c : constants) priors.push_back(c.prior);
    return priors;
}

std::string calibrate_few_shot(const FewShotRequest& request, const Progress& progress) {
    const Interruptible interruptible;
    Rows rows = read_rows(request);
    Evaluated e{fitted_to(rows.cases, request, progress), {}};
    bool any = false;
    for (std::size_t j = 0; j < e.fit.constants.size(); ++j) any = any || determined(e.fit, j);
    std::string text = fmt::format("{} measured steps; passed over: {} of other devices, {} that cannot be predicted\n",
                                   rows.cases.size(), rows.other_devices, rows.refused.size());
    const HeldOutError own = summary_of(e.fit.posterior.rows.errors, "fitted");
    const std::string other_base = nearer_frameworks(request, rows.cases, own.median, Interruptible::stopped);
    if (!any)
        throw ConfigError(fmt::format("calibrate: these {} rows determine none of {} constants: nothing is written; "
                                      "expected steps that differ in micro-batch, split or size\n{}{}",
                                      rows.cases.size(), e.fit.constants.size(), constants_table(e.fit), other_base));
    for (const LeftOut by : request.blocks)
        e.blocks.emplace_back(by, leave_out_blocks(e.fit, rows.cases, by, Interruptible::stopped));
    if (request.target == FitTarget::framework || request.target == FitTarget::both)
        text += "framework written to " + write_framework_file(e, request, rows.cases) + "\n";
    if (request.target != FitTarget::framework)
        text += "cluster written to " + write_cluster_file(e, request, rows.cases) + "\n";
    if (Interruptible::stopped()) text += "interrupted: the constants are those of the last pass\n";
    text += constants_table(e.fit);
    text += fmt::format("  fitted: median {:.1f} %, mean {:.1f} %, bias {:+.1f} %, scatter {:.1f} %\n", 100 * own.median,
                        100 * own.mape, 100 * own.bias, 100 * e.fit.posterior.noise);
    for (const auto& [by, blocks] : e.blocks)
        if (!blocks.empty()) text += block_table(blocks, by);
    text += contradictions(rows.cases, e.fit.posterior) + other_base;
    if (request.target == FitTarget::cluster && read_cluster(request.cluster).fitted) return text;
    return text + "calibrated: steps; GEMM, attention, memory passes and collectives by themselves: not measured\n";
}

std::string cross_validate(const FewShotRequest& request, LeftOut by, const Progress& progress) {
    const Interruptible interruptible;
    Rows rows = read_rows(request);
    const StepFit fit = fitted_to(rows.cases, request, progress);
    const auto blocks = leave_out_blocks(fit, rows.cases, by, Interruptible::stopped);
    if (blocks.empty())
        throw ConfigError(fmt::format("--cross-validate {}: the rows have one {} only; expected two or more",
                                      to_string(by), to_string(by)));
    return block_table(blocks, by);
}

}  // namespace stepcast
