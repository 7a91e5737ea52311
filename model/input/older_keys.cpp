#include "model/input/older_keys.h"

#include <fmt/format.h>

#include "model/input/key_values.h"
#include "model/runtime_rules.h"

namespace stepcast {
namespace {

const char* truth(bool value) { return value ? "true" : "false"; }

// A boolean in place of a name.
template <auto if_true, auto if_false>
void assign_switch(void* field, const ConfigValue& value, double, double) {
    bool truth = false;
    read_value(value, truth);
    *static_cast<decltype(if_true)*>(field) = truth ? if_true : if_false;
}
// One of several booleans that together were a style.
template <KernelStyle style>
void assign_style(void* field, const ConfigValue& value, double, double) {
    bool truth = false;
    read_value(value, truth);
    auto& now = *static_cast<KernelStyle*>(field);
    if (truth)
        now = style;
    else if (now == style)
        now = KernelStyle::fused;
}

FieldType boolean(void (*assign)(void*, const ConfigValue&, double, double)) {
    FieldType type = field_type<bool>;
    type.assign = assign;
    return type;
}

// A kernel, or mla, which asked for latent attention: workload.mla says so now.
constexpr std::string_view latent_word = "mla";
void assign_attention(Experiment& e, const ConfigValue& value) {
    const auto* const text = std::get_if<std::string>(&value.value);
    e.overlay.asks_latent = text && *text == latent_word;
    if (!e.overlay.asks_latent) read_value(value, e.runtime.attention);
}
std::string attention_text(const Experiment& e) {
    return std::string(is_latent(e.workload) ? latent_word : to_string(e.runtime.attention));
}

struct Older {
    std::string_view old, now;
    std::optional<FieldType> type = {};
    std::string (*text)(const Experiment&) = nullptr;
    void (*assign)(Experiment&, const ConfigValue&) = nullptr;
};

const std::vector<Older>& older() {
    static const std::vector<Older> all{
        {"parallelism.eager", "runtime.kernels", boolean(assign_style<KernelStyle::eager>),
         [](const Experiment& e) -> std::string { return truth(is_eager(e)); }},
        {"parallelism.unfused", "runtime.kernels", boolean(assign_style<KernelStyle::operations>),
         [](const Experiment& e) -> std::string { return truth(runs_operations(e)); }},
        {"parallelism.eager_script", "runtime.kernels", boolean(assign_style<KernelStyle::script>),
         [](const Experiment& e) -> std::string { return truth(runs_script(e)); }},
        {"parallelism.eager_traffic", "runtime.eager_traffic"},
        {"parallelism.composed", "runtime.composed"},
        {"workload.attention", "runtime.attention", {}, attention_text, assign_attention},
        {"workload.autocast", "runtime.autocast"},
        {"workload.fused_projections", "runtime.fused_projections"},
        {"workload.fused_gate", "runtime.fused_gate"},
        {"workload.row_scales", "runtime.row_scales"},
        {"workload.vocab_multiple", "runtime.vocab_multiple"},
        {"parallelism.recompute_stops_early", "runtime.recompute_stops_early"},
        {"parallelism.context_exchange", "runtime.context_exchange"},
        {"parallelism.gather_copies", "runtime.gather_copies"},
        {"workload.fused_loss", "runtime.loss.fused"},
        {"workload.loss_pieces", "runtime.loss.pieces"},
        {"workload.loss_in_forward", "runtime.loss.in_forward"},
        {"parallelism.gradient_dtype",
         "runtime.gradients.type",
         {},
         [](const Experiment& e) { return std::string(to_string(gradient_type(e))); }},
        {"parallelism.bucket",
         "runtime.gradients.bucket",
         {},
         [](const Experiment& e) { return value_text(bucket_bytes(e)); }},
        {"parallelism.frees_gradients", "runtime.gradients.freed"},
        {"parallelism.fused_accumulation", "runtime.gradients.fused_accumulation"},
        {"parallelism.clip_per_rank", "runtime.gradients.clip_per_rank"},
        {"parallelism.join_tied", "runtime.gradients.join_tied"},
        {"workload.master_weights", "runtime.optimizer.master_weights"},
        {"workload.clip_scales", "runtime.optimizer.clip_scales"},
        {"workload.fused_optimizer", "runtime.optimizer.fused"},
        {"workload.reads_loss", "runtime.optimizer.reads_loss"},
        {"workload.optimizer_groups",
         "runtime.optimizer.groups",
         {},
         [](const Experiment& e) { return fmt::format("{}", optimizer_groups(e)); }},
        {"workload.optimizer_calls", "runtime.optimizer.calls"},
        {"parallelism.overlap", "runtime.exchanges.gradients",
         boolean(assign_switch<GradientOverlap::always, GradientOverlap::never>),
         [](const Experiment& e) -> std::string { return truth(overlaps_gradients(e)); }},
        {"parallelism.overlap_params",
         "runtime.exchanges.parameters",
         {},
         [](const Experiment& e) -> std::string { return truth(overlaps_parameters(e)); }},
        {"parallelism.overlap_tp", "runtime.exchanges.tensor",
         boolean(assign_switch<TensorOverlap::always, TensorOverlap::never>),
         [](const Experiment& e) -> std::string { return truth(overlaps_tensor(e)); }},
        {"parallelism.overlap_weight_gradient", "runtime.exchanges.weight_gradient"},
        {"parallelism.overlap_p2p", "runtime.exchanges.sends"},
        {"parallelism.scatter_p2p", "runtime.exchanges.scatter_sends"},
        {"parallelism.expert_tensor_parallel", "runtime.experts.tensor_parallel",
         boolean(assign_switch<ExpertSplit::all, ExpertSplit::none>),
         [](const Experiment& e) -> std::string { return truth(splits_experts(e)); }},
        {"parallelism.dispatch_once", "runtime.experts.dispatch",
         boolean(assign_switch<TokenDispatch::once, TokenDispatch::all_to_all>),
         [](const Experiment& e) -> std::string { return truth(sends_once(e)); }},
        {"parallelism.expert_products", "runtime.experts.products"},
        {"parallelism.blocking_p2p", "runtime.pipeline.blocking"},
        {"parallelism.messages_per_tensor", "runtime.pipeline.messages_per_tensor"},
        {"parallelism.messages_per_tuple", "runtime.pipeline.messages_per_tuple"},
        {"parallelism.resend_first_stage", "runtime.pipeline.resend_first_stage"},
        {"parallelism.gradient_tensors", "runtime.pipeline.gradient_tensors"},
    };
    return all;
}

}  // namespace

std::string_view older_style(const Key& key) {
    if (key.path == "parallelism.eager") return to_string(KernelStyle::eager);
    if (key.path == "parallelism.unfused") return to_string(KernelStyle::operations);
    return key.path == "parallelism.eager_script" ? to_string(KernelStyle::script) : "";
}

const std::vector<Key>& older_keys() {
    static const std::vector<Key> keys = [] {
        std::vector<Key> found;
        for (const Older& one : older()) {
            Key key = *std::ranges::find(all_keys(), one.now, &Key::path);
            key.path = one.old;
            key.now = one.now;
            key.older_text = one.text;
            key.older_assign = one.assign;
            if (one.type) key.type = &*one.type;
            found.push_back(key);
        }
        return found;
    }();
    return keys;
}

}  // namespace stepcast
