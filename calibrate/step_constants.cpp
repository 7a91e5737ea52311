#include "calibrate/step_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "calibrate/fit_parameter.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/input/presets.h"
#include "model/runtime_rules.h"

namespace stepcast {
namespace {

// Whether a case exercises a constant, hence can tell it.
using Exercises = bool (*)(const Case&);
bool always(const Case&) { return true; }
bool eager(const Case& c) { return is_eager(c.experiment); }
bool tensor(const Case& c) { return c.experiment.parallelism.tp > 1; }
bool narrow(const Case& c) { return is_narrow(c.experiment.workload.dtype); }
bool flash(const Case& c) { return attention_kernel(c.experiment) != AttentionKind::plain; }
bool overlap(const Case& c) { return tensor(c) || c.experiment.parallelism.dp > 1; }
bool exchanges_experts(const Case& c) {
    return c.experiment.workload.moe.experts > 0 && c.experiment.parallelism.ep > 1;
}
bool inside(const Case& c) { return tensor(c) || c.experiment.parallelism.ep > 1; }
bool between(const Case& c) { return c.experiment.cluster.nodes > 1; }
bool partial(const Case& c) {
    const Parallelism& p = c.experiment.parallelism;
    const int inner = c.experiment.cluster.gpus_per_node / std::max(1, p.tp);
    return p.tp > 1 && inner > 1 && p.dp > inner && p.zero < 3;
}

// Keys of [steps] in model/presets/fit_priors.toml.
constexpr std::pair<std::string_view, Exercises> exercised_by[] = {
    {"host.layer", always},
    {"host.micro_batch", always},
    {"host.exchange", tensor},
    {eager_traffic_key, eager},
    {"kernel.training_gemm", always},
    {"kernel.training_fp8", narrow},
    {"kernel.memory_efficiency", always},
    {"kernel.attention_efficiency", flash},
    {"interference.compute_slowdown", overlap},
    {"host.exchange_setup", exchanges_experts},
    {"network.partial_ring", partial},
    {"link.intra.training", inside},
    {"link.inter.training", between}};

Exercises exercises_of(const std::string& key) {
    const auto* const found =
        std::ranges::find(exercised_by, key, &std::pair<std::string_view, Exercises>::first);
    if (found == std::end(exercised_by))
        throw ConfigError("fit_priors.toml: [steps]: " + key +
                          ": nothing says which rows determine it");
    return found->second;
}

// The key below "framework." for constants of a framework, else "".
std::string key_of_framework(const std::string& key) {
    return key.starts_with("host.") ? key : key == eager_traffic_key ? "eager_traffic" : "";
}

std::string value_in(const Experiment& e, const std::string& key) {
    return get_key(e, key == eager_traffic_key ? key : "cluster." + key);
}

// The different values above 0 in shipped clusters and, for constants of a framework, in shipped
// frameworks.
std::vector<double> shipped_values(const std::string& key, const std::vector<Experiment>& shipped) {
    std::set<double> values;
    for (const Experiment& e : shipped) {
        const std::string text = value_in(e, key);
        const double value = text.starts_with("0 ") || text == "0" ? 0 : value_in_si(key, text);
        if (value > 0) values.insert(value);
    }
    return {values.begin(), values.end()};
}

double spread(const std::vector<double>& values) {
    double mean = 0, squares = 0;
    for (const double v : values) mean += std::log(v) / real(values.size());
    for (const double v : values) squares += (std::log(v) - mean) * (std::log(v) - mean);
    return values.size() < 2 ? 0 : std::sqrt(squares / real(values.size() - 1));
}

// Every shipped cluster without a framework, and every shipped framework with measured costs on the
// first of them.
std::vector<Experiment> shipped_settings() {
    std::vector<Experiment> found;
    for (const auto& name : preset_names(PresetKind::cluster))
        found.emplace_back().cluster = read_cluster(name);
    const std::vector<std::string> assumed = assumed_frameworks();
    for (const auto& name : preset_names(PresetKind::framework)) {
        if (found.empty()) break;
        if (contains(assumed, name)) continue;
        Experiment e;
        e.workload.kind = Workload::Kind::transformer;
        e.cluster = found.front().cluster;
        e.framework = read_framework(name);
        apply_framework(e);
        found.push_back(std::move(e));
    }
    return found;
}

// The set-up of expert exchanges belongs to the framework if one states its time, else to the
// cluster: the machine's libraries do it.
bool is_the_clusters(Exercises used, const std::vector<Case>& cases) {
    return used == exchanges_experts && std::ranges::none_of(cases, [](const Case& row) {
               return ruled_value(row.experiment.framework, "cluster.host.exchange_setup") !=
                      nullptr;
           });
}
// Attention kernels that were measured alone tell more than steps, of which attention is only a
// part.
bool is_known(Exercises used, const std::vector<Case>& cases) {
    return used == flash && cases.front().experiment.cluster.kernel.attention.tile > 0;
}

}  // namespace

FitTarget parse_fit_target(std::string_view text) {
    if (text == "framework") return FitTarget::framework;
    if (text == "hardware") return FitTarget::hardware;
    if (text == "both") return FitTarget::both;
    throw ConfigError("--fit: \"" + std::string(text) +
                      "\" is no target; expected framework, hardware, both, scatter or few-shot");
}

std::vector<StepConstant> step_constants(FitTarget target, const std::vector<Case>& cases) {
    const std::vector<Experiment> shipped = shipped_settings();
    constexpr double widest = 1.5;
    std::vector<StepConstant> constants;
    // Of a prior its bounds always hold; its value is the start where the base has 0; its sigma is
    // the smallest one, for constants on which the shipped files agree.
    for (const FitParameter& belief : fit_priors({"steps"})) {
        const std::string &key = belief.key, framework = key_of_framework(key);
        const Exercises used = exercises_of(key);
        const bool software =
            !framework.empty() && !(target == FitTarget::cluster && is_the_clusters(used, cases));
        if (std::ranges::none_of(cases, used) ||
            (target == FitTarget::cluster && is_known(used, cases)))
            continue;
        if (target == FitTarget::framework ? !software : target != FitTarget::both && software)
            continue;
        const std::vector<double> values = shipped_values(key, shipped);
        const std::string text = value_in(cases.front().experiment, key);
        const bool has_value = text != "0" && !text.starts_with("0 ");
        const double usual =
            values.empty() ? value_in_si(key, belief.prior) : values[values.size() / 2];
        StepConstant constant{key,
                              software ? framework : "",
                              has_value ? value_in_si(key, text) : usual,
                              {},
                              !has_value};
        constant.prior.sigma =
            std::clamp(spread(values), belief.prior_sigma, std::max(widest, belief.prior_sigma));
        constant.prior.lower =
            std::min(0.0, std::log(value_in_si(key, belief.lower) / constant.start));
        constant.prior.upper =
            std::max(0.0, std::log(value_in_si(key, belief.upper) / constant.start));
        constants.push_back(constant);
    }
    return constants;
}

std::vector<Prior> priors_of(const std::vector<StepConstant>& constants) {
    std::vector<Prior> priors;
    for (const StepConstant& c : constants) priors.push_back(c.prior);
    return priors;
}

std::string text_of(const StepConstant& c, double x) {
    const double value = c.start * std::exp(std::clamp(x, c.prior.lower, c.prior.upper));
    return c.key.starts_with("host.") ? to_string(Seconds(value)) : fmt::format("{:.5g}", value);
}

}  // namespace stepcast
