#include "model/input/framework_file.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/base/errors.h"
#include "model/base/plain_text.h"
#include "model/experiment.h"
#include "model/input/key_values.h"

namespace stepcast {
namespace {

// ---- names before November 2026

struct Renamed {
    std::string_view old, now;
    std::string_view if_true = {}, if_false = {};  // of a name in place of a switch
};
constexpr Renamed renamed[] = {
    {"attention", "workload.attention"},
    {"dropout", "workload.dropout"},
    {"optimizer", "workload.optimizer"},
    {"head_share", "workload.head_share"},
    {"eager_traffic", "runtime.eager_traffic"},
    {"composed", "runtime.composed"},
    {"autocast", "runtime.autocast"},
    {"fused_projections", "runtime.fused_projections"},
    {"fused_gate", "runtime.fused_gate"},
    {"vocab_multiple", "runtime.vocab_multiple"},
    {"recompute_stops_early", "runtime.recompute_stops_early"},
    {"gather_copies", "runtime.gather_copies"},
    {"launch_blocking", "runtime.blocking_layers"},
    {"reserved", "runtime.reserved"},
    {"fused_loss", "runtime.loss.fused"},
    {"gradients", "runtime.gradients.type"},
    {"gradient_copies", "runtime.gradients.copies"},
    {"frees_gradients", "runtime.gradients.freed"},
    {"fused_accumulation", "runtime.gradients.fused_accumulation"},
    {"master_weights", "runtime.optimizer.master_weights"},
    {"clip_scales", "runtime.optimizer.clip_scales"},
    {"fused_optimizer", "runtime.optimizer.fused"},
    {"reads_loss", "runtime.optimizer.reads_loss"},
    {"optimizer_groups_a_layer", "runtime.optimizer.groups_a_layer"},
    {"update_copies", "runtime.optimizer.copies"},
    {"update_calls", "runtime.optimizer.copy_calls"},
    {"wide_norm", "runtime.optimizer.wide_norm"},
    {"update_waits", "runtime.optimizer.waits"},
    {"overlap", "runtime.exchanges.gradients", "always", "zero3"},
    {"overlap_params", "runtime.exchanges.parameters"},
    {"overlap_tp", "runtime.exchanges.tensor", "split_sequence", "never"},
    {"overlap_p2p", "runtime.exchanges.sends"},
    {"overlap_weight_gradient", "runtime.exchanges.weight_gradient"},
    {"expert_tensor_parallel", "runtime.experts.tensor_parallel", "wide", "none"},
    {"dispatch_once", "runtime.experts.dispatch", "once_dropless", "all_to_all"},
    {"tied", "framework.unstated.tied"},
    {"recompute", "framework.unstated.recompute"},
    {"interleaves", "framework.unstated.chunks"},
    {"balances_stages", "framework.unstated.balanced_stages"},
    {"mean_sequence", "framework.unstated.mean_sequence"},
    {"host.call", "cluster.host.call"},
    {"host.layer", "cluster.host.layer"},
    {"host.micro_batch", "cluster.host.micro_batch"},
    {"host.exchange", "cluster.host.exchange"},
    {"host.exchange_setup", "cluster.host.exchange_setup"},
    {"host.update", "cluster.host.update"},
    {"host.module_forward", "cluster.host.module_forward"},
    {"host.module_backward", "cluster.host.module_backward"},
    {"host.expert_layer", "cluster.host.expert_layer"},
    {"eager", "runtime.kernels"},
    {"unfused", "runtime.kernels"},
    {"bucket_weights", "runtime.gradients.bucket"},
    {"expert_products", "runtime.experts.products"},
    {"cuts_narrow_experts", "runtime.experts.tensor_parallel"},
    {"optimizer_calls", "runtime.optimizer.calls"},
    {"blocking_p2p", "runtime.pipeline.blocking"},
    {"shard_rate", "cluster.link.inter.training"},
    {"expert_graphs", "cluster.host.expert_layer"},
};

const Renamed* renamed_line(std::string_view key) {
    const auto found = std::ranges::find(renamed, key, &Renamed::old);
    return found == std::end(renamed) ? nullptr : found;
}

bool holds_name(const Key& key) { return !key.type->names.empty(); }

// ---- values

Experiment& scratch() {
    thread_local Experiment any;
    return any;
}
// The value as text of the key, after the checks of a file's line.
std::string checked_text(const Key& key, const ConfigValue& value) {
    assign(key, scratch(), value);
    return text_of(key, scratch());
}
std::string checked_text(std::string_view key, const std::string& text) {
    assign_text(*find_key(key), scratch(), text);
    return text_of(*find_key(key), scratch());
}
std::string toml_value(std::string_view key, const std::string& text) {
    assign_text(*find_key(key), scratch(), text);
    return toml_text_of(*find_key(key), scratch());
}

bool truth_of(const ConfigValue& value) {
    bool truth = false;
    read_value(value, truth);
    return truth;
}
double number_of(const ConfigValue& value) {
    double number = 0;
    read_value(value, number);
    return number;
}

void drop_rules(Framework& f, std::string_view key) {
    std::erase_if(f.rules, [&](const auto& rule) { return rule.set.key == key; });
}
void rule(Framework& f, std::string_view key, const std::string& text) {
    set_rule(f, std::string(key), checked_text(key, text));
}
void rule_where(Framework& f, std::vector<Condition> when, std::vector<Condition> unless,
                std::string_view key, const std::string& text) {
    const auto written_out = [](std::vector<Condition>& conditions) {
        for (Condition& one : conditions)
            for (std::string& value : one.values) value = checked_text(one.key, value);
    };
    written_out(when);
    written_out(unless);
    f.rules.push_back(
        {std::move(when), std::move(unless), {std::string(key), checked_text(key, text)}});
}
const Condition no_experts{"workload.moe.experts", {"0"}},
    before_blackwell{"cluster.gpu.peak.fp4", {"0 TFLOP/s"}}, zero_3{"parallelism.zero", {"3"}};

// Old lines whose rules have conditions, or that decide two keys.
bool take_special(Framework& f, std::string_view old, const Renamed& line,
                  const ConfigValue& value) {
    if (old == "eager" || old == "unfused") {
        const std::string style = old == "eager" ? "eager" : "operations";
        const std::string* const now = ruled_value(f, line.now);
        if (truth_of(value))
            rule(f, line.now, style);
        else if (!now || *now == style)
            rule(f, line.now, "fused");
    } else if (old == "bucket_weights") {
        const double weights = number_of(value);
        rule(f, line.now, weights > 0 ? fmt::format("{} weights", weights) : "one");
    } else if ((old == "vocab_multiple" && number_of(value) == 0) ||
               (old == "head_share" && number_of(value) == 1)) {  // as the experiment says
        drop_rules(f, line.now);
    } else if (old == "expert_products") {
        const std::string text = checked_text(*find_key(line.now), value);
        rule(f, line.now, text == "fused" ? "each" : text);
        if (text == "fused")  // other types and devices run experts one by one
            rule_where(f, {{"workload.dtype", {"fp8", "fp4"}}}, {before_blackwell}, line.now, text);
    } else if (old == "cuts_narrow_experts") {
        if (truth_of(value)) rule(f, line.now, "all");
    } else if (old == "optimizer_calls") {
        drop_rules(f, line.now);
        const std::string calls = checked_text(*find_key(line.now), value);
        const bool one_by_one = ruled_value(f, "runtime.optimizer.groups_a_layer") != nullptr;
        rule_where(f, {}, one_by_one ? std::vector<Condition>{} : std::vector{no_experts}, line.now,
                   calls);
        rule(f, "runtime.optimizer.visits_experts", calls == "1" ? "false" : "true");
    } else if (old == "blocking_p2p") {
        drop_rules(f, line.now);
        if (truth_of(value))
            rule_where(f, {{"parallelism.vp", {"1"}}}, {{"parallelism.pp", {"1"}}}, line.now,
                       "true");
    } else if (old == "shard_rate") {
        drop_rules(f, line.now);
        if (const double rate = number_of(value); rate > 0)
            rule_where(f, {zero_3}, {}, line.now, fmt::format("{}", rate));
    } else if (old == "expert_graphs") {
        if (truth_of(value)) rule_where(f, {}, {no_experts, before_blackwell}, line.now, "0 s");
    } else if (old.starts_with("host.module_")) {
        drop_rules(f, line.now);
        rule_where(f, {zero_3}, {}, line.now, checked_text(*find_key(line.now), value));
        rule(f, "runtime.module_hooks", "true");
    } else if (old == "host.expert_layer") {
        std::vector<FrameworkRule> graphs = f.rules;  // whose expert_graphs holds beside it
        std::erase_if(graphs, [&](const auto& one) {
            return one.set.key != line.now || (one.when.empty() && one.unless.empty());
        });
        rule(f, line.now, checked_text(*find_key(line.now), value));
        f.rules.insert(f.rules.end(), graphs.begin(), graphs.end());
        rule(f, "runtime.experts.one_by_one", "true");
    } else {
        return false;
    }
    return true;
}

// ---- [[when]]

// "when.2.if.parallelism.zero"
struct WhenPath {
    std::size_t number = 0;
    std::string_view part, key;  // part: if, unless or set
};
std::optional<WhenPath> when_path(std::string_view path) {
    WhenPath found;
    if (!path.starts_with("when.")) return std::nullopt;
    path.remove_prefix(5);
    const auto [end, error] = std::from_chars(path.data(), path.data() + path.size(), found.number);
    path.remove_prefix(static_cast<std::size_t>(end - path.data()));
    if (error != std::errc() || !path.starts_with('.')) return std::nullopt;
    path.remove_prefix(1);
    found.part = path.substr(0, path.find('.'));
    found.key = path.substr(std::min(path.size(), found.part.size() + 1));
    return found;
}

const Key& key_that(std::string_view path, bool (*fits)(std::string_view), const char* expected) {
    const Key* const key = find_key(path);
    if (!key || is_preset(*key)) throw ConfigError(unknown_key(std::string(path)));
    const std::string_view now = canonical(*key);
    if (!fits(now)) throw ConfigError(fmt::format("found {}; expected {}", now, expected));
    return *key;
}
bool may_be_asked(std::string_view key) { return !may_be_ruled(key); }

void take_condition(std::vector<Condition>& conditions, std::string_view path,
                    const ConfigValue& value) {
    const Key& key =
        key_that(path, may_be_asked, "a key that no framework sets, for example parallelism.zero");
    Condition& one = conditions.emplace_back(Condition{std::string(canonical(key)), {}});
    const auto* const list = std::get_if<std::vector<ConfigValue>>(&value.value);
    for (const ConfigValue& each : list ? std::span(*list) : std::span(&value, 1))
        one.values.push_back(checked_text(key, each));
}

constexpr const char* what_is_ruled =
    "a key of [runtime], of cluster.host, cluster.link.*.training, or workload.optimizer, "
    "workload.dropout, workload.head_share, workload.attention";

// The lines of one [[when]].
struct When {
    std::vector<Condition> when, unless;
    std::vector<Override> sets;
};

void take_when(When& all, const WhenPath& path, const ConfigValue& value) {
    if (path.part == "if") return take_condition(all.when, path.key, value);
    if (path.part == "unless") return take_condition(all.unless, path.key, value);
    if (path.part != "set") throw ConfigError("expected if, unless or set");
    const Key& key = key_that(path.key, may_be_ruled, what_is_ruled);
    all.sets.push_back({std::string(canonical(key)), checked_text(key, value)});
}

void take_line(Framework& f, const std::string& path, const ConfigValue& value) {
    const Renamed* const line = renamed_line(path);
    const auto* const text = std::get_if<std::string>(&value.value);
    if (line && text && text->empty()) return drop_rules(f, line->now);
    if (line && line->now.starts_with("framework.")) {
        Experiment holder;
        holder.framework = std::move(f);
        assign(*find_key(line->now), holder, value);
        f = std::move(holder.framework);
        return;
    }
    if (line && take_special(f, path, *line, value)) return;
    if (line && !line->if_true.empty())
        return rule(f, line->now, std::string(truth_of(value) ? line->if_true : line->if_false));
    const Key& key = line ? *find_key(line->now) : key_that(path, may_be_ruled, what_is_ruled);
    set_rule(f, std::string(canonical(key)), checked_text(key, value));
}

std::string conditions_text(const char* word, const std::vector<Condition>& conditions) {
    if (conditions.empty()) return "";
    std::vector<std::string> lines;
    for (const Condition& one : conditions) {
        std::vector<std::string> values;
        for (const std::string& value : one.values) values.push_back(toml_value(one.key, value));
        lines.push_back(values.size() == 1
                            ? fmt::format("{} = {}", one.key, values.front())
                            : fmt::format("{} = [{}]", one.key, fmt::join(values, ", ")));
    }
    return fmt::format("{} = {{{}}}, ", word, fmt::join(lines, ", "));
}

}  // namespace

bool is_framework_line(std::string_view key) {
    if (renamed_line(key) || when_path(key)) return true;
    const Key* const found = find_key(key);
    return found && !is_preset(*found) && may_be_ruled(canonical(*found));
}

std::vector<std::string> framework_line_names() {
    std::vector<std::string> names;
    for (const Key& key : all_keys())
        if (may_be_ruled(key.path)) names.emplace_back(key.path);
    for (const Renamed& one : renamed) names.emplace_back(one.old);
    return names;
}

std::string_view framework_key(std::string_view path) {
    constexpr std::string_view table = "framework.";
    if (!path.starts_with(table) || !is_framework_line(path.substr(table.size()))) return {};
    return path.substr(table.size());
}

ConfigValue value_of_line(std::string_view path, const std::string& text) {
    const Renamed* const line = renamed_line(path);
    const auto when = when_path(path);
    const Key* const key = find_key(line ? line->now : when ? when->key : path);
    const bool older = line && (holds_name(*key) || path == "bucket_weights");
    if (!key || (older && path != "expert_products")) return number_or_word_of(text);
    return key->type->typed(text);
}

void take_framework_lines(Framework& f, const std::vector<TomlEntry>& lines) {
    std::map<std::size_t, When> whens;
    for (const TomlEntry& line : lines)
        at_place(line.value_at + ": " + line.path, [&] {
            if (const auto path = when_path(line.path))
                take_when(whens[path->number], *path, line.value);
            else
                take_line(f, line.path, line.value);
        });
    for (const auto& [number, when] : whens)
        for (const Override& set : when.sets) f.rules.push_back({when.when, when.unless, set});
}

std::string framework_line(const Framework& f, std::string_view path) {
    const Renamed* const line = renamed_line(path);
    const std::string* const value = ruled_value(f, line ? line->now : path);
    if (!value || !line || line->if_true.empty()) return value ? *value : "";
    return *value == line->if_true ? "true" : "false";
}

std::string rules_text(const Framework& f, bool plain_alone) {
    std::string text, when;
    for (const FrameworkRule& rule : f.rules) {
        const std::string set =
            fmt::format("{} = {}", rule.set.key, toml_value(rule.set.key, rule.set.value));
        if (rule.when.empty() && rule.unless.empty())
            text += set + "\n";
        else
            when += fmt::format("  {{{}{}set = {{{}}}}},\n", conditions_text("if", rule.when),
                                conditions_text("unless", rule.unless), set);
    }
    return text + (when.empty() || plain_alone ? "" : "when = [\n" + when + "]\n");
}

}  // namespace stepcast
