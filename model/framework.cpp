#include "model/framework.h"

#include <algorithm>
#include <utility>

#include "model/experiment.h"
#include "model/input/keys.h"
#include "model/input/layers.h"
#include "model/machine/generation.h"
#include "model/machine/libraries.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

bool states(const Framework& framework, std::string_view key) {
    return std::find(framework.stated.begin(), framework.stated.end(), key) !=
           framework.stated.end();
}

// What a step of this kind reads of that which a framework decides; the other keys are of
// transformers.
bool reads(Workload::Kind kind, std::string_view key) {
    constexpr std::string_view layer[] = {"cluster.host.call", "parallelism.unfused"},
                               mlp[] = {"cluster.host.call", "parallelism.bucket",
                                        "parallelism.overlap", "workload.optimizer"},
                               coca[] = {"cluster.host.call",          "cluster.host.layer",
                                         "cluster.host.update",        "parallelism.bucket",
                                         "parallelism.gradient_dtype", "parallelism.overlap",
                                         "workload.master_weights",    "workload.optimizer"};
    const auto is_in = [&](const auto& keys) {
        return std::ranges::find(keys, key) != std::end(keys);
    };
    switch (kind) {
        case Workload::Kind::transformer: return true;
        case Workload::Kind::moe_layer: return is_in(layer);
        case Workload::Kind::mlp: return is_in(mlp);
        case Workload::Kind::coca: return is_in(coca);
    }
    return true;
}

// Sets a field if there is a value, unless the experiment states its key or its step does not read
// it, and records the replaced value.
class Adoption {
public:
    // `names` receives every key that may be set.
    explicit Adoption(Experiment& experiment, std::vector<std::string_view>* names = nullptr)
        : e_(experiment), names_(names) {}

    template <class T>
    void set(std::string_view key, T& target, const std::optional<std::type_identity_t<T>>& value) {
        if (names_) names_->push_back(key);
        if (!value || target == *value || states(e_.framework, key) ||
            !reads(e_.workload.kind, key))
            return;
        e_.framework.replaced.push_back({std::string(key), text_of(*find_key(key), e_)});
        target = *value;
    }

private:
    Experiment& e_;
    std::vector<std::string_view>* names_;
};

template <class T>
auto only(bool holds, T value) {
    return holds ? std::optional(value) : std::nullopt;
}

std::optional<Dtype> gradient_dtype(std::optional<GradientType> type, Dtype training) {
    if (!type) return std::nullopt;
    if (type != GradientType::training) return parse_name<Dtype>(to_string(*type));
    return training == Dtype::tf32 ? Dtype::fp32 : between_products(training);
}

// In the loops around the optimizer every expert counts as two tensors.
bool loops_over_experts(const Experiment& e) {
    return e.framework.optimizer_groups_a_layer == 0 && e.framework.optimizer_calls > 1 &&
           e.workload.moe.experts > 0;
}

// The framework's kernel, else the model's; what its library falls back to where the device has no
// such kernel.
AttentionKind usual_attention(const Experiment& e) {
    const AttentionKind kind = e.framework.attention.value_or(e.workload.attention);
    const Lack* const lack = lack_of(e.cluster.gpu, "workload.attention", to_string(kind));
    return lack && !lack->instead.empty() ? parse_name<AttentionKind>(lack->instead) : kind;
}

void adopt_workload(Experiment& e, Adoption& adopt) {
    const Framework& f = e.framework;
    const Parallelism& p = e.parallelism;
    Workload& w = e.workload;
    // Attention written out operation by operation, and attention kinds that belong to the model,
    // cannot be replaced.
    const auto has_own_kind = [&] {
        return w.attention == AttentionKind::mla || w.positions == Positions::relative;
    };
    const bool written_out = (p.unfused && !f.unfused) || p.eager_script;
    adopt.set("workload.attention", w.attention,
              only(!has_own_kind() && !written_out, usual_attention(e)));
    adopt.set("workload.dropout", w.dropout, f.dropout);
    adopt.set("workload.vocab_multiple", w.vocab_multiple,
              only(f.vocab_multiple > 0, f.vocab_multiple));
    adopt.set("workload.tied", w.tied,
              only(w.positions == Positions::learned && f.tied == false, false));
    adopt.set("workload.optimizer", w.optimizer, f.optimizer);
    adopt.set("workload.master_weights", w.master_weights, f.master_weights);
    adopt.set("workload.clip_scales", w.clip_scales, f.clip_scales);
    adopt.set("workload.fused_optimizer", w.fused_optimizer, f.fused_optimizer);
    adopt.set("workload.autocast", w.autocast, f.autocast);
    adopt.set("workload.fused_projections", w.fused_projections,
              only(!has_own_kind(), f.fused_projections));
    adopt.set("workload.fused_gate", w.fused_gate, f.fused_gate);
    adopt.set("workload.fused_loss", w.fused_loss, f.fused_loss);
    adopt.set("workload.head_share", w.head_share, only(f.head_share < 1, f.head_share));
    const bool one_by_one = f.optimizer_groups_a_layer > 0,
               in_loops = one_by_one || loops_over_experts(e);
    const int groups = one_by_one ? f.optimizer_groups_a_layer * (w.layers + 1)
                                  : 1 + 2 * (w.moe.experts / p.ep) * (w.layers / p.pp);
    adopt.set("workload.optimizer_groups", w.optimizer_groups, only(in_loops, groups));
    adopt.set("workload.optimizer_calls", w.optimizer_calls, only(in_loops, f.optimizer_calls));
    adopt.set("workload.reads_loss", w.reads_loss, f.reads_loss);
}

// Published recipes do not split fine-grained experts over tensor-parallel ranks
// (expert_tensor_parallel_size 1).
std::optional<bool> splits_experts(const Experiment& e, const Parallelism& p) {
    const Framework& f = e.framework;
    const bool narrow = expert_ffn(e.workload) < e.workload.hidden && !f.cuts_narrow_experts;
    return only(e.workload.moe.experts > 0 && p.tp > 1 && f.expert_tensor_parallel,
                f.expert_tensor_parallel == true && !narrow);
}

std::optional<bool> dispatches_once(const Experiment& e, const Parallelism& p) {
    const auto& moe = e.workload.moe;
    return only(moe.experts > 0 && p.ep > 1 && e.framework.dispatch_once &&
                    moe.capacity_factor == 0 &&
                    !lack_of(e.cluster.gpu, "parallelism.dispatch_once", "true"),
                true);
}

// The flag of the experiment as it was before it adopted its framework.
bool before_adoption(const Experiment& e, std::string_view key, bool now) {
    const auto found = std::ranges::find(e.framework.replaced, key, &Override::key);
    return found == e.framework.replaced.end() ? now : found->value == "true";
}

void adopt_experts(Experiment& e, Adoption& adopt) {
    const Framework& f = e.framework;
    const Workload& w = e.workload;
    Parallelism& p = e.parallelism;
    const bool has_experts = w.moe.experts > 0;
    // other types and devices run experts one by one
    const bool has_fused_kernel = is_narrow(w.dtype) && is_blackwell(e.cluster.gpu);
    const bool as_stated = f.expert_products != ExpertProducts::fused || has_fused_kernel;
    adopt.set("parallelism.expert_products", p.expert_products,
              only(has_experts, as_stated ? f.expert_products : ExpertProducts::each));
    adopt.set("parallelism.expert_tensor_parallel", p.expert_tensor_parallel, splits_experts(e, p));
    adopt.set("parallelism.dispatch_once", p.dispatch_once, dispatches_once(e, p));
}

void adopt_split(Experiment& e, Adoption& adopt) {
    const Framework& f = e.framework;
    Parallelism& p = e.parallelism;
    adopt.set("parallelism.overlap_p2p", p.overlap_p2p, f.overlap_p2p);
    adopt.set("parallelism.blocking_p2p", p.blocking_p2p,
              only(p.pp > 1 && p.vp == 1, f.blocking_p2p));
    adopt.set("parallelism.overlap_weight_gradient", p.overlap_weight_gradient,
              f.overlap_weight_gradient);
    adopt.set("parallelism.fused_accumulation", p.fused_accumulation, f.fused_accumulation);
    adopt.set("parallelism.gather_copies", p.gather_copies, f.gather_copies);
    adopt.set("parallelism.eager", p.eager, f.eager);
    adopt.set("parallelism.eager_traffic", p.eager_traffic, f.eager_traffic);
    adopt.set("parallelism.composed", p.composed,
              only(!f.composed.empty() && !p.unfused && !p.eager_script, f.composed));
    // A lone layer of experts is modelled so for plain all-to-alls alone.
    const bool layer = e.workload.kind == Workload::Kind::moe_layer;
    const bool keeps_style =
        layer && (p.moe_system != MoeSystem::alltoall || p.overlap_chunks != 1);
    adopt.set("parallelism.unfused", p.unfused, keeps_style ? std::nullopt : f.unfused);
    adopt.set("parallelism.recompute_stops_early", p.recompute_stops_early,
              f.recompute_stops_early);
    adopt.set("cluster.link.inter.training", e.cluster.inter.training,
              only(p.zero == 3 && f.shard_rate != 0.0, f.shard_rate));
    adopt.set("parallelism.gradient_dtype", p.gradient_dtype,
              gradient_dtype(f.gradients, e.workload.dtype));
    adopt.set("parallelism.frees_gradients", p.frees_gradients, f.frees_gradients);
    const bool transformer = e.workload.kind == Workload::Kind::transformer;
    constexpr double everything = 1e12;  // weights; more than any model has
    const double weights = f.bucket_weights.value_or(0) > 0 ? *f.bucket_weights : everything;
    const Dtype element =
        e.workload.kind == Workload::Kind::mlp ? e.workload.dtype : p.gradient_dtype;
    // others keep a buffer of its whole size
    const bool sized = f.bucket_weights.has_value() && (transformer || *f.bucket_weights > 0);
    adopt.set("parallelism.bucket", p.bucket, only(sized, weights * size_of(element)));
    Parallelism follows = p;
    follow_framework(e, follows);
    adopt.set("parallelism.overlap", p.overlap, follows.overlap);
    adopt.set("parallelism.overlap_params", p.overlap_params, follows.overlap_params);
    adopt.set("parallelism.overlap_tp", p.overlap_tp, follows.overlap_tp);
}

void adopt_host(Experiment& e, Adoption& adopt) {
    const FrameworkHost& f = e.framework.host;
    HostCosts& host = e.cluster.host;
    adopt.set("cluster.host.call", host.call, f.call);
    adopt.set("cluster.host.layer", host.layer, f.layer);
    adopt.set("cluster.host.expert_layer", host.expert_layer, f.expert_layer);
    adopt.set("cluster.host.micro_batch", host.micro_batch, f.micro_batch);
    adopt.set("cluster.host.exchange", host.exchange, f.exchange);
    adopt.set("cluster.host.exchange_setup", host.exchange_setup, f.exchange_setup);
    adopt.set("cluster.host.update", host.update, f.update);
    const bool sharded = e.parallelism.zero == 3;  // other stages need no hooks
    adopt.set("cluster.host.module_forward", host.module_forward,
              sharded ? f.module_forward : std::nullopt);
    adopt.set("cluster.host.module_backward", host.module_backward,
              sharded ? f.module_backward : std::nullopt);
    const bool graphs =
        e.framework.expert_graphs && is_blackwell(e.cluster.gpu) && e.workload.moe.experts > 0;
    adopt.set("cluster.host.expert_layer", host.expert_layer, only(graphs, Seconds(0)));
}

void adopt_all(Experiment& e, Adoption adopt) {
    for (const auto part : {adopt_split, adopt_workload, adopt_experts, adopt_host}) part(e, adopt);
}

std::vector<std::string_view> named_keys() {
    std::vector<std::string_view> names;
    Experiment any;
    adopt_all(any, Adoption(any, &names));
    return names;
}

void give_back(Experiment& e) {
    const auto replaced = std::exchange(e.framework.replaced, {});
    for (auto one = replaced.rbegin(); one != replaced.rend(); ++one)
        assign_text(*find_key(one->key), e, one->value);
}

}  // namespace

bool decides(const Framework& framework, std::string_view key) {
    static const std::vector<std::string_view> decided = named_keys();
    return !framework.name.empty() && std::ranges::find(decided, key) != decided.end();
}

void follow_framework(const Experiment& base, Parallelism& p) {
    const Framework& f = base.framework;
    if (f.name.empty()) return;
    const auto set = [&](std::string_view key, bool& target, bool value) {
        if (!states(f, key)) target = value;
    };
    // ZeRO 3 gathers parameters ahead of their use in any framework
    const bool sharded = p.zero == 3;
    if (f.overlap) set("parallelism.overlap", p.overlap, *f.overlap || sharded);
    if (f.overlap_params)
        set("parallelism.overlap_params", p.overlap_params, *f.overlap_params || sharded);
    if (f.overlap_tp)
        set("parallelism.overlap_tp", p.overlap_tp, *f.overlap_tp && p.sequence_parallel);
    if (base.workload.moe.experts == 0) return;
    const auto follow = [&](std::string_view key, bool Parallelism::*flag,
                            std::optional<bool> value) {
        set(key, p.*flag, value.value_or(before_adoption(base, key, base.parallelism.*flag)));
    };
    follow("parallelism.expert_tensor_parallel", &Parallelism::expert_tensor_parallel,
           splits_experts(base, p));
    follow("parallelism.dispatch_once", &Parallelism::dispatch_once, dispatches_once(base, p));
}

bool hooks_modules(const Framework& f) { return f.host.module_forward || f.host.module_backward; }

std::vector<std::string_view> split_keys_beyond(const Experiment& base) {
    const Framework& f = base.framework;
    std::vector<std::string_view> keys;
    if (f.name.empty()) return keys;
    if (f.shard_rate.value_or(0) != 0 || hooks_modules(f)) keys.push_back("parallelism.zero");
    if (f.blocking_p2p || loops_over_experts(base)) keys.push_back("parallelism.pp");
    if (f.blocking_p2p) keys.push_back("parallelism.vp");
    if (loops_over_experts(base)) keys.push_back("parallelism.ep");
    return keys;
}

void adopt_framework(Experiment& e) {
    give_back(e);
    if (e.framework.name.empty()) return;
    adopt_all(e, Adoption(e));
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
