#include "sim/why/causes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "measured/medians.h"
#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/numbers.h"
#include "model/input/check_experiment.h"
#include "model/input/fields.h"
#include "model/input/key_table.h"
#include "model/input/keys.h"
#include "model/input/presets.h"
#include "model/records/measurements.h"
#include "model/runtime_rules.h"
#include "model/step.h"
#include "model/transformer/counts.h"
#include "sim/engine/simulate.h"
#include "sim/explain/cluster_parameters.h"

namespace stepcast {
namespace {

struct CauseList {
    KEY_NAMED(std::vector<Cause>, causes, {}, "cause", "");
};

// "KEY = VALUE", "KEY *" or "KEY + VALUE"; of what undoes a cause also "KEY >= VALUE".
struct CauseChange {
    std::string key, value;
    char how = '=';
};

CauseChange parse_change(const std::string& text) {
    for (const char how : {'=', '*', '+', '>'})
        if (const auto at = text.find(std::string(" ") + how); at != std::string::npos) {
            const auto value = std::min(at + (how == '>' ? 4 : 3), text.size());
            return {text.substr(0, at), text.substr(value), how};
        }
    throw ConfigError("\"" + text + "\"; expected KEY = VALUE, KEY * or KEY + VALUE");
}

// What is no key: parts of a step that the engine does not know.
bool is_of_step(const std::string& key) {
    return key == "step" || key == "optimizer" || key == "parameters" || key == "device" ||
           key == "work" || key == "rate";
}

constexpr std::array<std::string_view, 3> parts_of_memory{"weights", "gradients", "optimizer"};

void check_change(const std::string& text) {
    const CauseChange c = parse_change(text);
    const bool all_below = c.key.ends_with('.') && !keys_of(c.key).empty();
    if (!is_of_step(c.key) && c.key != "experts" && !all_below && !find_key(c.key))
        throw ConfigError(c.key + ": " + unknown_key(c.key));
    if (c.how == '+') (void)parse_seconds(c.value);
    if (c.how == '>') (void)parse_bandwidth(c.value);
    Experiment any;
    if (c.how == '=' && find_key(c.key) && c.value != "severity" && c.value != "node")
        set_key(any, {c.key, c.value});
}

using Needs = bool(const Experiment&);
constexpr std::pair<CauseNeeds, Needs*> all_needs[] = {
    {CauseNeeds::nodes, [](const Experiment& e) { return e.cluster.nodes > 1; }},
    {CauseNeeds::linked_node,
     [](const Experiment& e) {
         return e.cluster.gpus_per_node > 1 && joins_gpus(e.cluster.fabric);
     }},
    {CauseNeeds::unlinked_node,
     [](const Experiment& e) {
         return e.cluster.gpus_per_node > 1 && rank_count(e.cluster) > 1 &&
                !joins_gpus(e.cluster.fabric);
     }},
    {CauseNeeds::unblocked, [](const Experiment& e) { return !e.cluster.launch_blocking; }},
    {CauseNeeds::blocked, [](const Experiment& e) { return e.cluster.launch_blocking; }},
    {CauseNeeds::flash,
     [](const Experiment& e) {
         return e.runtime.attention != AttentionKind::plain && !is_latent(e.workload);
     }},
    {CauseNeeds::fused, [](const Experiment& e) { return !is_eager(e) && !runs_operations(e); }},
    {CauseNeeds::no_recompute,
     [](const Experiment& e) {
         return e.parallelism.recompute != Recompute::full || e.parallelism.recompute_layers > 0;
     }},
    {CauseNeeds::trains,
     [](const Experiment& e) {
         return e.workload.kind == Workload::Kind::transformer &&
                e.workload.optimizer != Optimizer::none;
     }},
    {CauseNeeds::zero3, [](const Experiment& e) { return e.parallelism.zero == 3; }},
    {CauseNeeds::accumulates, [](const Experiment& e) { return micro_batches(e.parallelism) > 1; }},
    {CauseNeeds::shards_inside,
     [](const Experiment& e) {
         return e.parallelism.zero == 3 && shards_over_some(e.parallelism);
     }},
    {CauseNeeds::overlaps,
     [](const Experiment& e) {
         return e.parallelism.dp > 1 && e.runtime.exchanges.gradients != GradientOverlap::never;
     }},
    {CauseNeeds::reduces_gradients,
     [](const Experiment& e) {
         return e.parallelism.dp * e.parallelism.cp > 1 &&
                (e.workload.kind == Workload::Kind::transformer ||
                 e.workload.kind == Workload::Kind::mlp);
     }},
    {CauseNeeds::half_precision,
     [](const Experiment& e) {
         return e.workload.dtype == Dtype::bf16 || e.workload.dtype == Dtype::fp16;
     }},
    {CauseNeeds::spreads_experts, [](const Experiment& e) { return e.parallelism.ep > 1; }},
    {CauseNeeds::experts, [](const Experiment& e) { return e.workload.moe.experts > 0; }},
    {CauseNeeds::ranks, [](const Experiment& e) { return rank_count(e.cluster) > 1; }},
    {CauseNeeds::stated_rate, [](const Experiment&) { return true; }},
    {CauseNeeds::stated_tokens, [](const Experiment&) { return true; }},
    {CauseNeeds::stated_total, [](const Experiment&) { return true; }},
};

// Billions of parameters that a node holds once.
double billions_of_node(const Experiment& e) {
    return count_parameters(e.workload).total() / 1e9 / e.cluster.nodes;
}

// Passes of one expert over one micro-batch in a step of a rank, forward and backward as one.
double expert_passes(const Experiment& e) {
    int layers = 0;
    for (int l = 0; l < e.workload.layers; ++l) layers += has_experts(e.workload, l);
    return real(layers) / e.parallelism.pp * e.workload.moe.experts / e.parallelism.ep *
           micro_batches(e.parallelism);
}

void scale_all(Cluster& cluster, const std::string& key, double factor) {
    const std::string below = key.substr(std::string_view("cluster.").size());
    for (const ClusterParameter& p : cluster_parameters(cluster))
        if (p.key == below || (below.ends_with('.') && p.key.starts_with(below)))
            cluster = with_scaled(cluster, p.key, factor);
}

void apply(const CauseChange& c, double severity, UnderCause& u) {
    Experiment& e = u.experiment;
    const auto value = [&] { return parse_seconds(c.value) * severity; };
    if (c.key == "step" || c.key == "rate") {
        u.times *= c.value == "micro"      ? 1.0 / micro_batches(e.parallelism)
                   : c.value == "replicas" ? real(e.parallelism.dp)
                                           : severity;
    } else if (c.key == "work") {
        u.work *= severity;
    } else if (c.key == "device") {
        u.device_share *= severity;
    } else if (c.key == "optimizer") {
        u.in_optimizer += value() * billions_of_node(e);
    } else if (c.key == "parameters") {  // fetched by the forward and again by the backward
        const Seconds time = value() * billions_of_node(e) * micro_batches(e.parallelism);
        u.in_forward += time / 2;
        u.in_backward += time / 2;
    } else if (c.key == "experts") {  // a backward has two products for each of the forward
        const Seconds time = value() * expert_passes(e);
        u.in_forward += time / 3;
        u.in_backward += time * (2.0 / 3);
    } else {
        u.same = false;
        if (c.value == "severity")
            set_key(e, {c.key, fmt::format("{:.6g}", severity)});
        else if (c.how == '*')
            scale_all(e.cluster, c.key, severity);
        else if (c.how == '+')
            set_key(e, {c.key, to_string(parse_seconds(get_key(e, c.key)) + value())});
        else
            set_key(e, {c.key, c.value});
    }
}

}  // namespace

std::vector<Cause> read_causes(const std::string& path) {
    const std::string file = path.empty() ? home_folder() + "/model/presets/causes.toml" : path;
    const std::vector<Cause> causes = read_table<CauseList>(file, "a list of causes").causes;
    for (const Cause& cause : causes)
        at_place(file + ": cause \"" + cause.name + "\"", [&] {
            for (const std::string& change : cause.changes) check_change(change);
            for (const std::string& change : cause.undone) check_change(change);
            for (const std::string& need : cause.when) (void)parse_name<CauseNeeds>(need);
            if (cause.least > cause.most || cause.every_least > cause.every_most ||
                cause.weight <= 0)
                throw ConfigError("expected a weight above 0, and least up to most");
            for (const std::string& part : cause.frees)
                if (std::ranges::count(parts_of_memory, part) == 0)
                    throw ConfigError("frees: found \"" + part +
                                      "\"; expected weights, gradients or optimizer");
        });
    return causes;
}

bool is_possible(const Cause& cause, const Experiment& e) {
    return std::ranges::all_of(cause.when, [&](const std::string& need) {
        return all_needs[as_index(parse_name<CauseNeeds>(need))].second(e);
    });
}

double chance_of_distance(const Cause& cause, double every) {
    if (every < cause.every_least || every > cause.every_most) return 0;
    const double range = std::log(cause.every_most / cause.every_least);
    return range > 0 ? 1 / (every * range) : 1;
}

bool sets_keys(const Cause& cause) {
    return std::ranges::any_of(cause.changes, [](const std::string& text) {
        const CauseChange c = parse_change(text);
        return c.how == '=' && !is_of_step(c.key) && !c.key.starts_with("cluster.");
    });
}

Cause among(Cause cause, int ranks) {
    cause.weight *= ranks / (ranks + cause.half_at);
    return cause;
}

bool needs(const Cause& cause, CauseNeeds need) {
    return std::ranges::count(cause.when, to_string(need)) > 0;
}

std::vector<double> severities_of(const Cause& cause) {
    constexpr int count = 7;
    if (cause.least == cause.most) return {cause.least};
    std::vector<double> found;
    if (cause.doubling)
        for (double s = cause.least; s <= cause.most; s *= 2) found.push_back(s);
    else
        for (int i = 0; i < count; ++i)
            found.push_back(cause.least * std::pow(cause.most / cause.least, i / real(count - 1)));
    return found;
}

std::optional<UnderCause> under(const Cause& cause, double severity, const Experiment& e) {
    UnderCause found{.experiment = e};
    try {
        for (const std::string& change : cause.changes)
            apply(parse_change(change), severity, found);
        check_experiment(found.experiment);
    } catch (const ConfigError&) {
        return std::nullopt;  // the experiment cannot be so
    }
    return found;
}

// Whether the first key that the cause sets is so; one that is a matter of degree must be possible.
static bool is_set(const Cause& cause, const Experiment& e) {
    for (const std::string& text : cause.changes)
        if (const CauseChange c = parse_change(text); c.how == '=' && c.value != "severity")
            return get_key(e, c.key) == c.value;
    return is_possible(cause, e);
}

std::optional<Experiment> without(const Cause& cause, const Experiment& e) {
    Experiment found = e;
    try {
        if (!is_set(cause, e)) return std::nullopt;
        for (const std::string& text : cause.undone) {
            const CauseChange c = parse_change(text);
            const std::string value =
                c.value == "node" ? std::to_string(e.cluster.gpus_per_node) : c.value;
            if (c.how != '>' || parse_bandwidth(get_key(e, c.key)) < parse_bandwidth(value))
                set_key(found, {c.key, value});
        }
        check_experiment(found);
    } catch (const ConfigError&) {
        return std::nullopt;  // the experiment cannot be so
    }
    if (found == e) return std::nullopt;
    return found;
}

std::vector<double> kernel_times(const TaskGraph& graph, const Costs& costs) {
    std::vector<double> times(as_index(graph.rank_count()));
    for (TaskId t = 0; t < graph.size(); ++t)
        if (!is_collective(graph.op(t)))
            for (const Place place : graph.places(t))
                times[as_index(place.rank())] += costs.duration[t].si();
    return times;
}

namespace {

// Seconds by kind are shares of one second.
KernelShares kinds_of(const TaskGraph& graph, const Costs& costs, int rank) {
    KernelShares kinds;
    for (TaskId t = 0; t < graph.size(); ++t) {
        const Op& op = graph.op(t);
        double* const kind = std::holds_alternative<Attention>(op)    ? &kinds.attention
                             : std::holds_alternative<MemoryPass>(op) ? &kinds.passes
                             : is_compute(op)                         ? &kinds.products
                                                                      : nullptr;
        if (!kind) continue;
        for (const Place place : graph.places(t))
            if (place.rank() == rank) *kind += costs.duration[t].si();
    }
    return kinds;
}

}  // namespace

static std::vector<BusySpan> spans_of(const TaskGraph& graph, const Timeline& timeline, int rank,
                                      bool with_host) {
    std::vector<BusySpan> spans;
    for (TaskId t = 0; t < graph.size(); ++t)
        for (const Place place : graph.places(t))
            if (place.rank() == rank &&
                (with_host || !std::holds_alternative<HostWork>(graph.op(t))))
                spans.emplace_back(timeline.start[t], timeline.finish[t]);
    return spans;
}

// A stage that waits for another one does so in a kernel that receives, which is no task.
static double busy_of(const TaskGraph& graph, const Timeline& timeline, int rank,
                      const Experiment& e) {
    if (e.parallelism.pp > 1) return 1;
    return covered_share(spans_of(graph, timeline, rank, false), Seconds(0), timeline.end);
}

QuickStep quick_step(const Experiment& e) {
    const TaskGraph graph = build_step(e, routing_of(e, 0));
    const Costs costs = price(graph, e.cluster);
    Timeline timeline;
    run(graph, costs, e.cluster.interference, timeline);
    const int rank = reporting_rank(graph);
    const std::vector<double> times = kernel_times(graph, costs);
    const double typical = median(times), most = *std::ranges::max_element(times);
    KernelShares kinds = kinds_of(graph, costs, rank);
    const Seconds computing(kinds.total());
    if (computing > Seconds(0))
        for (double KernelShares::*kind : kernel_kinds) kinds.*kind /= computing.si();
    return {.times = step_times(graph, timeline, rank),
            .kernels = Seconds(times[as_index(rank)]),
            .computing = computing,
            .kinds = kinds,
            .typical = Seconds(typical),
            .uneven = typical > 0 ? most / typical : 1,
            .idle = longest_idle(spans_of(graph, timeline, rank, true), Seconds(0), timeline.end),
            .busy = busy_of(graph, timeline, rank, e)};
}

}  // namespace stepcast
