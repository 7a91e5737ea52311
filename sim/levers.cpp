#include "sim/levers.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/base/lists.h"
#include "model/base/text_search.h"
#include "model/input/check_experiment.h"
#include "model/input/key_table.h"
#include "model/input/keys.h"
#include "model/input/split_rules.h"
#include "model/transformer/chunks.h"
#include "model/transformer/counts.h"
#include "sim/interval.h"
#include "sim/predict.h"

namespace stepcast {
namespace {

constexpr std::array size_keys{"parallelism.tp", "parallelism.pp", "parallelism.cp",
                               "parallelism.ep", "parallelism.vp", "parallelism.micro_batch"};
constexpr std::array switch_keys{
    "parallelism.zero",   "parallelism.recompute",         "parallelism.schedule",
    "parallelism.layout", "parallelism.sequence_parallel", "parallelism.overlap_experts"};

// The other values of a switch; none for numbers and lists.
std::vector<std::string> other_values(const Key& key, const Experiment& e) {
    std::vector<std::string> values;
    if (key.path == "parallelism.zero")
        values = {"0", "1", "2", "3"};
    else if (key.type->kind == "boolean")
        values = {"true", "false"};
    else
        for (const std::string_view name : key.type->names) values.emplace_back(name);
    std::erase(values, text_of(key, e));
    return values;
}

// The replicas that are left beside other sizes of the model's split.
std::optional<Override> replicas_beside(const Experiment& e, const Override& size) {
    Experiment tried = e;
    set_key(tried, size);
    const std::optional<int> replicas = replicas_on(tried.parallelism, rank_count(e.cluster));
    if (!replicas || *replicas == tried.parallelism.dp) return std::nullopt;
    return Override{"parallelism.dp", fmt::format("{}", *replicas)};
}

// Schedules and chunks do nothing without a pipeline.
bool is_idle(std::string_view key, const Experiment& e) {
    return e.parallelism.pp == 1 && (key == "parallelism.schedule" || key == "parallelism.vp" ||
                                     key == "parallelism.layout");
}

// Two names may mean the same in this step: gradients of the training type and of bf16.
bool repeats(const std::vector<Lever>& found, const Lever& lever) {
    return std::ranges::any_of(found, [&](const Lever& one) {
        return one.set.front().key == lever.set.front().key && one.step == lever.step &&
               one.memory == lever.memory;
    });
}

struct LeverChange {
    std::vector<Override> set;
    std::string hardware = {};
};

// A machine that can be bought, or a clock that can be set. Rates that the experiment's cluster
// measured itself do not follow these.
void add_hardware(const Experiment& e, std::vector<LeverChange>& changes) {
    const auto add = [&](const char* name, double factor, const std::vector<std::string>& keys) {
        LeverChange change{{}, name};
        for (const std::string& key : keys) {
            const Key& found = *find_key(key);
            const double rate = found.type->number(found.field(&e));
            if (rate > 0)
                change.set.push_back({key, fmt::format("{:.17g} {}", rate * factor,
                                                       !has(key, ".peak.") ? "B/s" : "FLOP/s")});
        }
        if (!change.set.empty()) changes.push_back(std::move(change));
    };
    add("links in the node, twice the rate", 2, {"cluster.link.intra.bandwidth"});
    add("NICs, twice the rate", 2, {"cluster.link.inter.bandwidth"});
    add("memory, a quarter more of the rate", 1.25, {"cluster.gpu.memory_bandwidth"});
    std::vector<std::string> peaks;
    for (const Key& key : keys_of("cluster.gpu.peak.")) peaks.emplace_back(key.path);
    add("matrix units (clock), a quarter more of the rate", 1.25, peaks);
}

// Each module by itself, where the framework can be told.
void add_modules(const Experiment& e, std::vector<LeverChange>& changes) {
    constexpr std::string_view key = "parallelism.recompute_modules";
    const bool told = std::ranges::any_of(
        e.framework.can.switches, [&](const std::string& line) { return line.starts_with(key); });
    if (!told) return;
    std::vector<RecomputedModule> all;
    for (std::size_t i = 0; i < name_list<RecomputedModule>.size(); ++i)
        all.push_back(static_cast<RecomputedModule>(i));
    for (const RecomputedModule module : modules_of(e.workload, all))
        if (module != RecomputedModule::core_attn)
            changes.push_back({{{"parallelism.recompute", "selective"},
                                {std::string(key), fmt::format("[{}]", to_string(module))}}});
}

std::vector<LeverChange> all_changes(const Experiment& e) {
    std::vector<LeverChange> changes;
    for (const std::string key : size_keys) {
        if (is_idle(key, e)) continue;
        const int now = std::stoi(text_of(*find_key(key), e));
        for (const int size : {now / 2, now * 2}) {
            if (size < 1 || size == now || (size == now / 2 && now % 2 != 0)) continue;
            std::vector<Override>& one =
                changes.emplace_back(LeverChange{{{key, fmt::format("{}", size)}}}).set;
            if (const auto replicas = replicas_beside(e, one.front())) one.push_back(*replicas);
        }
    }
    std::vector<const Key*> switches;
    for (const char* name : switch_keys)
        if (!is_idle(name, e)) switches.push_back(find_key(name));
    for (const Key& key : keys_of("runtime.")) switches.push_back(&key);
    for (const Key* key : switches)
        for (const std::string& value : other_values(*key, e))
            changes.push_back({{{std::string(key->path), value}}});
    add_modules(e, changes);
    add_hardware(e, changes);
    return changes;
}

std::string beyond(const Experiment& changed, const Experiment& before) {
    const std::vector<std::string> already = beyond_framework(before);
    for (const std::string& one : beyond_framework(changed))
        if (!contains(already, one)) return one;
    return "";
}

// Both forecasts are of one model: their common errors cancel.
Behind against(const Forecast& now, const Forecast& changed) {
    return widened(behind({changed.step.p50.si()}, {now.step.p50.si()}),
                   reach_of_pair(now, changed, shipped_scatter().pairs));
}

}  // namespace

void add_stage_lever(const AsRun& as, UnequalStages& unequal) {
    const Experiment& e = as.experiment;
    const std::vector<StageLayout>& layouts = e.framework.can.layouts;
    if (e.parallelism.layout != StageLayout::even || !e.parallelism.stage_layers.empty()) return;
    for (const StageLayout layout : {StageLayout::balanced, StageLayout::light_last}) {
        if (!layouts.empty() && !contains(layouts, layout)) continue;
        AsRun changed = as;
        changed.experiment.parallelism.layout = layout;
        try {
            check_experiment(changed.experiment);
        } catch (const ConfigError&) {  // a chunk without layers
            continue;
        }
        unequal.layout = to_string(layout);
        unequal.layers = chunk_layers(e.workload, changed.experiment.parallelism);
        unequal.step = predict(changed).step.p50;
        return;
    }
}

Experiment with_lever(const Experiment& experiment, const std::vector<Override>& set) {
    Experiment e = experiment;
    for (const Override& one : set) set_key(e, one);
    return e;
}

std::vector<Lever> levers(const Experiment& experiment) {
    std::vector<Lever> found;
    if (experiment.workload.kind != Workload::Kind::transformer) return found;
    Experiment base = experiment;
    if (base.parallelism.global_batch == 0)
        set_key(base, {"parallelism.global_batch",
                       fmt::format("{}", sequences_of_step(base.parallelism))});
    const Forecast now = predict(base);
    for (const auto& [set, hardware] : all_changes(base)) try {
            const Experiment changed = with_lever(base, set);
            check_experiment(changed);
            const Forecast f = predict({.experiment = changed, .drawn = now.drawn});
            if (f.step.p50 == now.step.p50 && f.memory == now.memory) continue;
            Lever lever{.set = set,
                        .from = text_of(*find_key(set.front().key), base),
                        .hardware = hardware,
                        .step = f.step,
                        .against = against(now, f),
                        .memory = f.memory.peak + f.memory.overheads,
                        .fits = f.memory.fits,
                        .cannot = beyond(changed, base),
                        .flag = {}};
            if (!repeats(found, lever)) found.push_back(std::move(lever));
        } catch (const ConfigError&) {  // no such split, or not modelled
        }
    std::ranges::stable_sort(found, [](const Lever& a, const Lever& b) {
        if (a.hardware.empty() != b.hardware.empty()) return a.hardware.empty();
        return a.fits != b.fits ? a.fits : a.step.p50 < b.step.p50;
    });
    return found;
}

}  // namespace stepcast
