// Which constants a fit of steps may move, and what is believed of them beforehand.
#include <algorithm>
#include <cmath>
#include <set>

#include "calibrate/few_shot.h"
#include "calibrate/fit_parameter.h"
#include "model/errors.h"
#include "model/presets.h"

namespace stepcast {
namespace {

// What a case exercises, hence what it can tell.
using Exercises = bool (*)(const Case&);
bool always(const Case&) { return true; }
bool eager(const Case& c) { return c.experiment.parallelism.eager; }
bool tensor(const Case& c) { return c.experiment.parallelism.tp > 1; }
bool narrow(const Case& c) { return is_narrow(c.experiment.workload.dtype); }
bool flash(const Case& c) { return c.experiment.workload.attention != AttentionKind::plain; }
bool overlap(const Case& c) { return tensor(c) || c.experiment.parallelism.dp > 1; }
bool experts(const Case& c) { return c.experiment.workload.moe.experts > 0 && c.experiment.parallelism.ep > 1; }
bool inside(const Case& c) { return tensor(c) || c.experiment.parallelism.ep > 1; }
bool between(const Case& c) { return c.experiment.cluster.nodes > 1; }
bool partial(const Case& c) {
    const Parallelism& p = c.experiment.parallelism;
    const int inner = c.experiment.cluster.gpus_per_node / std::max(1, p.tp);
    return p.tp > 1 && inner > 1 && p.dp > inner && p.zero < 3;
}

// Bounds hold whatever the rows say; `usual` begins where the start has no value, `least_sigma` where shipped ones agree.
struct Candidate {
    const char *key, *framework;
    Exercises used;
    const char *usual, *lower, *upper;
    double least_sigma;
};
constexpr Candidate candidates[] = {
    {"host.layer", "host.layer", always, "300 us", "1 us", "50 ms", 1.0},
    {"host.micro_batch", "host.micro_batch", always, "1 ms", "1 us", "500 ms", 1.0},
    {"host.exchange", "host.exchange", tensor, "30 us", "1 us", "5 ms", 0.7},
    {eager_traffic_key, "eager_traffic", eager, "2", "0.7", "6", 0.3},
    {"kernel.training_gemm", "", always, "1", "0.3", "1.5", 0.1},
    {"kernel.training_fp8", "", narrow, "1", "0.3", "1.5", 0.15},
    {"kernel.memory_efficiency", "", always, "0.85", "0.1", "1", 0.15},
    {"kernel.attention_efficiency", "", flash, "0.5", "0.05", "0.95", 0.2},
    {"interference.compute_slowdown", "", overlap, "0.2", "0.001", "3", 0.5},
    {"host.exchange_setup", "host.exchange_setup", experts, "500 us", "10 us", "20 ms", 0.7},
    {"network.partial_ring", "", partial, "0.6", "0.1", "1", 0.4},
    {"link.intra.training", "", inside, "1", "0.2", "2", 0.15},
    {"link.inter.training", "", between, "1", "0.02", "2", 0.3},
};

std::string value_in(const Experiment& e, const char* key) {
    return key == std::string(eager_traffic_key) ? get_key(e, key) : get_key(e, std::string("cluster.") + key);
}

// The values of shipped clusters and, of what is a framework's, of shipped frameworks; each once.
std::vector<double> shipped_values(const Candidate& c, const std::vector<Experiment>& shipped) {
    std::set<double> values;
    for (const Experiment& e : shipped) {
        const std::string text = value_in(e, c.key);
        const double value = text.starts_with("0 ") || text == "0" ? 0 : value_in_si(c.key, text);
        if (value > 0) values.insert(value);
    }
    return {values.begin(), values.end()};
}

double spread(const std::vector<double>& values) {
    double mean = 0, squares = 0;
    for (const double v : values) mean += std::log(v) / static_cast<double>(values.size());
    for (const double v : values) squares += (std::log(v) - mean) * (std::log(v) - mean);
    return values.size() < 2 ? 0 : std::sqrt(squares / static_cast<double>(values.size() - 1));
}

// Every shipped cluster with no framework, and every framework that states costs on the first of them.
std::vector<Experiment> shipped_settings() {
    std::vector<Experiment> found;
    for (const auto& name : preset_names(PresetKind::cluster)) found.emplace_back().cluster = read_cluster(name);
    for (const auto& name : preset_names(PresetKind::framework)) {
        if (found.empty()) break;
        Experiment e;
        e.workload.kind = Workload::Kind::transformer;
        e.cluster = found.front().cluster;
        e.framework = read_framework(name);
        adopt_framework(e);
        found.push_back(std::move(e));
    }
    return found;
}

// Expert exchanges are set up by a framework that says what that takes, else by the machine's libraries.
bool is_the_clusters(const Candidate& c, const std::vector<Case>& cases) {
    return c.used == experts &&
           std::ranges::none_of(cases, [](const Case& row) { return row.experiment.framework.host.exchange_setup.has_value(); });
}
// Attention kernels that were measured alone say more than steps, of which attention is a part.
bool is_known(const Candidate& c, const std::vector<Case>& cases) {
    return c.used == flash && cases.front().experiment.cluster.kernel.attention.tile > 0;
}

}  // namespace

FitTarget parse_fit_target(std::string_view text) {
    if (text == "framework") return FitTarget::framework;
    if (text == "hardware") return FitTarget::hardware;
    if (text == "both") return FitTarget::both;
    throw ConfigError("--fit: \"" + std::string(text) + "\" is no target; expected framework, hardware, both or scatter");
}

std::vector<StepConstant> step_constants(FitTarget target, const std::vector<Case>& cases) {
    const std::vector<Experiment> shipped = shipped_settings();
    constexpr double widest = 1.5;
    std::vector<StepConstant> constants;
    for (const Candidate& c : candidates) {
        const bool software = *c.framework != '\0' && !(target == FitTarget::cluster && is_the_clusters(c, cases));
        if (std::ranges::none_of(cases, c.used) || (target == FitTarget::cluster && is_known(c, cases))) continue;
        if (target == FitTarget::framework ? !software : target != FitTarget::both && software) continue;
        const std::vector<double> values = shipped_values(c, shipped);
        const std::string text = value_in(cases.front().experiment, c.key);
        const bool has_value = text != "0" && !text.starts_with("0 ");
        const double usual = values.empty() ? value_in_si(c.key, c.usual) : values[values.size() / 2];
        StepConstant constant{c.key, software ? c.framework : "", has_value ? value_in_si(c.key, text) : usual, {}, !has_value};
        constant.prior.sigma = std::clamp(spread(values), c.least_sigma, std::max(widest, c.least_sigma));
        constant.prior.lower = std::min(0.0, std::log(value_in_si(c.key, c.lower) / constant.start));
        constant.prior.upper = std::max(0.0, std::log(value_in_si(c.key, c.upper) / constant.start));
        constants.push_back(constant);
    }
    return constants;
}

}  // namespace stepcast
