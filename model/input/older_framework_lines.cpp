#include "model/input/older_framework_lines.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/base/lists.h"
#include "model/experiment.h"
#include "model/input/key_values.h"

namespace stepcast {
namespace {

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
std::string text_of_line(const OlderLine& line, const ConfigValue& value) {
    return checked_text(*find_key(line.now), value);
}

// ---- rules

bool always(const FrameworkRule& rule) { return rule.when.empty() && rule.unless.empty(); }

void drop_rules(Framework& f, std::string_view key) {
    std::erase_if(f.rules, [&](const auto& rule) { return rule.set.key == key; });
}
void rule(Framework& f, std::string_view key, const std::string& text) {
    set_rule(f, std::string(key), checked_text(*find_key(key), text));
}
void rule_where(Framework& f, std::vector<Condition> when, std::vector<Condition> unless,
                std::string_view key, const std::string& text) {
    for (auto* conditions : {&when, &unless})
        for (Condition& one : *conditions)
            for (std::string& value : one.values) value = checked_text(*find_key(one.key), value);
    f.rules.push_back({std::move(when),
                       std::move(unless),
                       {std::string(key), checked_text(*find_key(key), text)}});
}
const Condition no_experts{"workload.moe.experts", {"0"}},
    before_blackwell{"cluster.gpu.peak.fp4", {"0 TFLOP/s"}}, zero_3{"parallelism.zero", {"3"}};

// ---- lines

void take_switch(Framework& f, const OlderLine& line, const ConfigValue& value) {
    rule(f, line.now, std::string(truth_of(value) ? line.if_true : line.if_false));
}
// A field of the framework itself.
void take_field(Framework& f, const OlderLine& line, const ConfigValue& value) {
    Experiment holder;
    holder.framework = std::move(f);
    assign(*find_key(line.now), holder, value);
    f = std::move(holder.framework);
}
template <KernelStyle style>
void take_style(Framework& f, const OlderLine& line, const ConfigValue& value) {
    const std::string* const now = ruled_value(f, line.now);
    if (truth_of(value))
        rule(f, line.now, std::string(to_string(style)));
    else if (!now || *now == to_string(style))
        rule(f, line.now, std::string(to_string(KernelStyle::fused)));
}
void take_bucket(Framework& f, const OlderLine& line, const ConfigValue& value) {
    const double weights = number_of(value);
    rule(f, line.now, weights > 0 ? fmt::format("{} weights", weights) : "one");
}
// One number left the key as the experiment had it.
template <int as_experiment>
void take_unless(Framework& f, const OlderLine& line, const ConfigValue& value) {
    if (number_of(value) == as_experiment) return drop_rules(f, line.now);
    rule(f, line.now, text_of_line(line, value));
}
void take_operators(Framework& f, const OlderLine& line, const ConfigValue& value) {
    const std::string text = text_of_line(line, value);
    text == "[]" ? drop_rules(f, line.now) : rule(f, line.now, text);
}
// Types other than fp8 and fp4, and devices before Blackwell, run experts one by one.
void take_products(Framework& f, const OlderLine& line, const ConfigValue& value) {
    const std::string text = text_of_line(line, value);
    const bool fused = text == to_string(ExpertProducts::fused);
    rule(f, line.now, fused ? std::string(to_string(ExpertProducts::each)) : text);
    if (fused)
        rule_where(f, {{"workload.dtype", {"fp8", "fp4"}}}, {before_blackwell}, line.now, text);
}
void take_narrow(Framework& f, const OlderLine& line, const ConfigValue& value) {
    if (truth_of(value)) rule(f, line.now, std::string(to_string(ExpertSplit::all)));
}
void take_calls(Framework& f, const OlderLine& line, const ConfigValue& value) {
    drop_rules(f, line.now);
    const std::string calls = text_of_line(line, value);
    const bool one_by_one = ruled_value(f, "runtime.optimizer.groups_a_layer") != nullptr;
    rule_where(f, {}, one_by_one ? std::vector<Condition>{} : std::vector{no_experts}, line.now,
               calls);
    rule(f, "runtime.optimizer.visits_experts", calls == "1" ? "false" : "true");
}
void take_blocking(Framework& f, const OlderLine& line, const ConfigValue& value) {
    drop_rules(f, line.now);
    if (truth_of(value))
        rule_where(f, {{"parallelism.vp", {"1"}}}, {{"parallelism.pp", {"1"}}}, line.now, "true");
}
void take_shard_rate(Framework& f, const OlderLine& line, const ConfigValue& value) {
    drop_rules(f, line.now);
    if (const double rate = number_of(value); rate > 0)
        rule_where(f, {zero_3}, {}, line.now, fmt::format("{}", rate));
}
void take_graphs(Framework& f, const OlderLine& line, const ConfigValue& value) {
    if (truth_of(value)) rule_where(f, {}, {no_experts, before_blackwell}, line.now, "0 s");
}
void take_hooks(Framework& f, const OlderLine& line, const ConfigValue& value) {
    drop_rules(f, line.now);
    rule_where(f, {zero_3}, {}, line.now, text_of_line(line, value));
    rule(f, "runtime.module_hooks", "true");
}
// Stands beside expert_graphs, which holds on Blackwell.
void take_expert_layer(Framework& f, const OlderLine& line, const ConfigValue& value) {
    std::vector<FrameworkRule> graphs = f.rules;
    std::erase_if(graphs, [&](const auto& one) { return one.set.key != line.now || always(one); });
    rule(f, line.now, text_of_line(line, value));
    append(f.rules, graphs);
    rule(f, "runtime.experts.one_by_one", "true");
}

constexpr OlderLine known_lines[] = {
    {"attention", "runtime.attention"},
    {"dropout", "workload.dropout"},
    {"optimizer", "workload.optimizer"},
    {"head_share", "workload.head_share", take_unless<1>},
    {"eager_traffic", "runtime.eager_traffic"},
    {"composed", "runtime.composed", take_operators},
    {"autocast", "runtime.autocast"},
    {"fused_projections", "runtime.fused_projections"},
    {"fused_gate", "runtime.fused_gate"},
    {"vocab_multiple", "runtime.vocab_multiple", take_unless<0>},
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
    {"overlap", "runtime.exchanges.gradients", take_switch, "always", "zero3"},
    {"overlap_params", "runtime.exchanges.parameters"},
    {"overlap_tp", "runtime.exchanges.tensor", take_switch, "split_sequence", "never"},
    {"overlap_p2p", "runtime.exchanges.sends"},
    {"overlap_weight_gradient", "runtime.exchanges.weight_gradient"},
    {"expert_tensor_parallel", "runtime.experts.tensor_parallel", take_switch, "wide", "none"},
    {"dispatch_once", "runtime.experts.dispatch", take_switch, "once_dropless", "all_to_all"},
    {"tied", "framework.unstated.tied", take_field},
    {"recompute", "framework.unstated.recompute", take_field},
    {"interleaves", "framework.unstated.chunks", take_field},
    {"balances_stages", "framework.unstated.balanced_stages", take_field},
    {"mean_sequence", "framework.unstated.mean_sequence", take_field},
    {"host.call", "cluster.host.call"},
    {"host.layer", "cluster.host.layer"},
    {"host.micro_batch", "cluster.host.micro_batch"},
    {"host.exchange", "cluster.host.exchange"},
    {"host.exchange_setup", "cluster.host.exchange_setup"},
    {"host.update", "cluster.host.update"},
    {"host.module_forward", "cluster.host.module_forward", take_hooks},
    {"host.module_backward", "cluster.host.module_backward", take_hooks},
    {"host.expert_layer", "cluster.host.expert_layer", take_expert_layer},
    {"eager", "runtime.kernels", take_style<KernelStyle::eager>},
    {"unfused", "runtime.kernels", take_style<KernelStyle::operations>},
    {"bucket_weights", "runtime.gradients.bucket", take_bucket},
    {"expert_products", "runtime.experts.products", take_products},
    {"cuts_narrow_experts", "runtime.experts.tensor_parallel", take_narrow},
    {"optimizer_calls", "runtime.optimizer.calls", take_calls},
    {"blocking_p2p", "runtime.pipeline.blocking", take_blocking},
    {"shard_rate", "cluster.link.inter.training", take_shard_rate},
    {"expert_graphs", "cluster.host.expert_layer", take_graphs},
};

}  // namespace

std::span<const OlderLine> older_lines() { return known_lines; }

const OlderLine* older_line(std::string_view key) {
    const auto found = std::ranges::find(known_lines, key, &OlderLine::old);
    return found == std::end(known_lines) ? nullptr : found;
}

void take_older_line(Framework& f, const OlderLine& line, const ConfigValue& value) {
    const auto* const text = std::get_if<std::string>(&value.value);
    if (text && text->empty()) return drop_rules(f, line.now);
    if (line.take) return line.take(f, line, value);
    rule(f, line.now, text_of_line(line, value));
}

}  // namespace stepcast
