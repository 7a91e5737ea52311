#include "model/framework.h"

#include <algorithm>
#include <utility>

#include "model/base/lists.h"
#include "model/experiment.h"
#include "model/input/keys.h"
#include "model/input/layers.h"
#include "model/machine/cluster_file.h"
#include "model/machine/lacks.h"
#include "model/runtime_rules.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

constexpr std::string_view projections_key = "runtime.fused_projections",
                           kernels_key = "runtime.kernels", ruled_attention = "runtime.attention",
                           tied_key = "workload.tied", dispatch_key = "runtime.experts.dispatch";

template <class Keys>
bool is_in(const Keys& keys, std::string_view key) {
    return contains(keys, key);
}

// A lone layer of experts is modelled operation by operation for plain all-to-alls alone.
bool sets_layer(const Experiment& e, const Override& set) {
    const bool plain =
        e.workload.kind != Workload::Kind::moe_layer ||
        (e.parallelism.moe_system == MoeSystem::alltoall && e.parallelism.overlap_chunks == 1);
    return set.key == "cluster.host.call" ||
           (set.key == kernels_key && plain && set.value == to_string(KernelStyle::operations));
}

// What a step of this kind and model reads of that which a framework sets; the other keys are of
// transformers. Their buckets are buffers of their whole size, so none holds all gradients.
bool reads(const Experiment& e, const Override& set) {
    constexpr std::string_view mlp[] = {"cluster.host.call", "runtime.gradients.bucket",
                                        "runtime.exchanges.gradients", "workload.optimizer"},
                               coca[] = {"cluster.host.call",
                                         "cluster.host.layer",
                                         "cluster.host.update",
                                         "runtime.gradients.bucket",
                                         "runtime.gradients.type",
                                         "runtime.exchanges.gradients",
                                         "runtime.optimizer.master_weights",
                                         "workload.optimizer"};
    if (set.key == projections_key && has_own_projections(e.workload)) return false;
    const bool whole = set.key == "runtime.gradients.bucket" && set.value == "one";
    switch (e.workload.kind) {
        case Workload::Kind::transformer: return true;
        case Workload::Kind::moe_layer: return sets_layer(e, set);
        case Workload::Kind::mlp: return is_in(mlp, set.key) && !whole;
        case Workload::Kind::coca: return is_in(coca, set.key) && !whole;
    }
    return true;
}

bool holds(const Condition& condition, const Experiment& e) {
    return is_in(condition.values, text_of(*find_key(condition.key), e));
}
bool holds(const FrameworkRule& rule, const Experiment& e) {
    const auto here = [&](const Condition& condition) { return holds(condition, e); };
    return std::ranges::all_of(rule.when, here) && std::ranges::none_of(rule.unless, here);
}

// What the last of the framework's rules for this key says that hold here; null for none.
const std::string* ruled_here(const Experiment& e, std::string_view key) {
    const std::string* value = nullptr;
    for (const FrameworkRule& rule : e.framework.rules)
        if (rule.set.key == key && holds(rule, e)) value = &rule.set.value;
    return value;
}

// Sets the key unless the experiment states it, and keeps what was there.
void set(Experiment& e, std::string_view name, const std::string& value) {
    const Key& key = *find_key(name);
    const std::string before = text_of(key, e);
    if (before == value || is_stated(e, name)) return;
    if (!std::ranges::count(e.overlay.under, name, &Override::key))
        e.overlay.under.push_back({std::string(name), before});
    assign_text(key, e, value);
}

// The framework's kernel, else the model's; what its library falls back to where the device has no
// such kernel. Attention written out operation by operation, latent attention and relative
// positions have kernels of their own.
void set_attention(Experiment& e) {
    const Workload& w = e.workload;
    const std::string* const ruled = ruled_value(e.framework, kernels_key);
    const bool by_framework = ruled && *ruled == to_string(KernelStyle::operations);
    const KernelStyle style = e.runtime.kernels;
    if (w.kind != Workload::Kind::transformer || is_latent(w) ||
        w.positions == Positions::relative || style == KernelStyle::script ||
        (style == KernelStyle::operations && !by_framework))
        return;
    const std::string* const usual = ruled_here(e, ruled_attention);
    std::string kind = usual ? *usual : std::string(to_string(e.runtime.attention));
    const Lack* const lack = lack_of(e.cluster.gpu, ruled_attention, kind);
    if (lack && !lack->instead.empty()) kind = lack->instead;
    if (!fuses_heads(e)) kind = to_string(AttentionKind::plain);
    set(e, ruled_attention, kind);
}

void set_dispatch(Experiment& e) {
    if (e.runtime.experts.dispatch == TokenDispatch::all_to_all) return;
    if (const Lack* const lack =
            lack_of(e.cluster.gpu, dispatch_key, to_string(TokenDispatch::once)))
        set(e, dispatch_key, lack->instead);
}

}  // namespace

bool fuses_heads(const Experiment& e) {
    constexpr int multiple = 8;  // 16 bytes of 16-bit elements
    return e.framework.can.odd_heads || head_dim(e.workload) % multiple == 0;
}

bool may_be_ruled(std::string_view key) {
    constexpr std::string_view of_workload[] = {tied_key, "workload.dropout", "workload.optimizer",
                                                "workload.head_share"};
    return key.starts_with("runtime.") || key.starts_with("cluster.host.") ||
           (key.starts_with("cluster.link.") && key.ends_with(".training")) ||
           is_in(of_workload, key);
}

const std::string* ruled_value(const Framework& framework, std::string_view key) {
    const std::string* value = nullptr;
    for (const FrameworkRule& rule : framework.rules)
        if (rule.when.empty() && rule.unless.empty() && rule.set.key == key)
            value = &rule.set.value;
    return value;
}

void set_rule(Framework& framework, const std::string& key, const std::string& value) {
    auto& rules = framework.rules;
    std::erase_if(rules, [&](const auto& rule) { return rule.set.key == key; });
    const auto behind = [&](const FrameworkRule& rule) {
        return !rule.when.empty() || !rule.unless.empty() || rule.set.key > key;
    };
    rules.insert(std::ranges::find_if(rules, behind), {{}, {}, {key, value}});
}

std::vector<std::string_view> condition_keys(const Framework& framework) {
    std::vector<std::string_view> keys;
    for (const FrameworkRule& rule : framework.rules)
        for (const auto* conditions : {&rule.when, &rule.unless})
            for (const Condition& one : *conditions)
                if (!is_in(keys, one.key)) keys.emplace_back(one.key);
    return keys;
}

bool is_stated(const Experiment& e, std::string_view key) { return is_in(e.overlay.stated, key); }

std::vector<Override> outvoted(const Experiment& e) {
    Experiment free = e;
    free.overlay.stated.clear();
    apply_framework(free);
    std::vector<Override> found;
    for (const std::string& key : e.overlay.stated)
        if (const Key* const known = find_key(key); known && may_be_ruled(canonical(*known)))
            if (const std::string other = text_of(*known, free); other != text_of(*known, e))
                found.push_back({key, other});
    return found;
}

void put_back_framework(Experiment& e) {
    const auto under = std::exchange(e.overlay.under, {});
    for (const Override& one : under) assign_text(*find_key(one.key), e, one.value);
}

void apply_framework(Experiment& e) {
    put_back_framework(e);
    if (e.framework.name.empty()) return;
    for (const FrameworkRule& rule : e.framework.rules)
        if (rule.set.key != ruled_attention && reads(e, rule.set) && holds(rule, e))
            set(e, rule.set.key, rule.set.value);
    if (e.workload.kind != Workload::Kind::transformer) return;
    if (e.workload.positions == Positions::learned && e.framework.unstated.tied == false)
        set(e, tied_key, "false");
    set_attention(e);
    set_dispatch(e);
}

Framework read_framework(const std::string& path_or_preset) {
    Layers layers;
    const auto path = preset_path(PresetKind::framework, path_or_preset);
    lay_framework(layers, path);
    return layers.experiment.framework;
}

std::string write_framework(const Framework& framework) {
    Experiment holder;
    holder.framework = framework;
    return file_text(holder, "framework.", framework.fitted);
}

}  // namespace stepcast
