#include "model/framework.h"

#include <algorithm>
#include <array>
#include <utility>

#include "model/experiment.h"
#include "model/keys/keys.h"
#include "model/keys/layers.h"
#include "model/machine/generation.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

// Every key that adopting may set.
constexpr auto decided = std::to_array<std::string_view>(
    {"workload.attention",          "workload.dropout",
     "workload.tied",               "workload.optimizer",
     "workload.fused_projections",  "workload.fused_gate",
     "workload.fused_loss",         "workload.head_share",
     "workload.optimizer_groups",   "workload.optimizer_calls",
     "workload.reads_loss",         "parallelism.gradient_dtype",
     "parallelism.bucket",          "parallelism.overlap",
     "parallelism.overlap_params",  "parallelism.overlap_tp",
     "parallelism.overlap_p2p",     "parallelism.overlap_weight_gradient",
     "parallelism.eager",           "parallelism.fused_accumulation",
     "parallelism.eager_traffic",   "parallelism.unfused",
     "parallelism.gather_copies",   "parallelism.dispatch_once",   "parallelism.recompute_stops_early",
     "parallelism.expert_products", "parallelism.blocking_p2p",
     "cluster.host.call",           "parallelism.expert_tensor_parallel",
     "cluster.host.layer",          "cluster.host.expert_layer",
     "cluster.host.micro_batch",    "cluster.host.exchange",
     "cluster.host.exchange_setup", "cluster.host.update",
     "cluster.link.inter.training"});

bool states(const Framework& framework, std::string_view key) {
    return std::find(framework.stated.begin(), framework.stated.end(), key) != framework.stated.end();
}

// Sets fields by key, and keeps what was there.
class Adoption {
public:
    explicit Adoption(Experiment& experiment) : e_(experiment) {}

    template <class T>
    void set(std::string_view key, T& target, const T& value) {
        if (target == value || states(e_.framework, key)) return;
        e_.framework.replaced.push_back({std::string(key), text_of(*find_key(key), e_)});
        target = value;
    }
    template <class T>
    void set(std::string_view key, T& target, const std::optional<T>& value) {
        if (value) set(key, target, *value);
    }

private:
    Experiment& e_;
};

Dtype gradient_dtype(GradientType type, Dtype training) {
    if (type != GradientType::training) return parse_name<Dtype>(to_string(type));
    return training == Dtype::tf32 ? Dtype::fp32 : between_products(training);
}

void adopt_workload(Experiment& e, Adoption& adopt) {
    const Framework& f = e.framework;
    Workload& w = e.workload;
    // Kernels that are written out operation by operation, and kinds that belong to the model, have no other.
    const bool written_out = (e.parallelism.unfused && !f.unfused) || e.parallelism.eager_script;
    if (w.attention != AttentionKind::mla && w.positions != Positions::relative && !written_out)
        adopt.set("workload.attention", w.attention, f.attention);
    adopt.set("workload.dropout", w.dropout, f.dropout);
    if (w.positions == Positions::learned && f.tied == false) adopt.set("workload.tied", w.tied, false);
    adopt.set("workload.optimizer", w.optimizer, f.optimizer);
    if (w.attention != AttentionKind::mla && w.positions != Positions::relative)
        adopt.set("workload.fused_projections", w.fused_projections, f.fused_projections);
    adopt.set("workload.fused_gate", w.fused_gate, f.fused_gate);
    adopt.set("workload.fused_loss", w.fused_loss, f.fused_loss);
    if (f.head_share < 1) adopt.set("workload.head_share", w.head_share, f.head_share);
    if (f.optimizer_groups_a_layer > 0) {
        adopt.set("workload.optimizer_groups", w.optimizer_groups, f.optimizer_groups_a_layer * (w.layers + 1));
        adopt.set("workload.optimizer_calls", w.optimizer_calls, f.optimizer_calls);
    } else if (const Parallelism& p = e.parallelism; f.optimizer_calls > 1 && w.moe.experts > 0) {
        // Every expert is two tensors in the loops around the optimizer.
        adopt.set("workload.optimizer_groups", w.optimizer_groups, 1 + 2 * (w.moe.experts / p.ep) * (w.layers / p.pp));
        adopt.set("workload.optimizer_calls", w.optimizer_calls, f.optimizer_calls);
    }
    adopt.set("workload.reads_loss", w.reads_loss, f.reads_loss);
}

void adopt_experts(Experiment& e, Adoption& adopt) {
    const Framework& f = e.framework;
    const Workload& w = e.workload;
    Parallelism& p = e.parallelism;
    if (w.moe.experts == 0) return;
    const bool has_fused_kernel = is_narrow(w.dtype) && is_blackwell(e.cluster.gpu);  // other types and devices run each by itself
    const bool as_stated = f.expert_products != ExpertProducts::fused || has_fused_kernel;
    adopt.set("parallelism.expert_products", p.expert_products, as_stated ? f.expert_products : ExpertProducts::each);
    // Fine-grained experts are not cut further by recipes (expert_tensor_parallel_size 1).
    const bool narrow = expert_ffn(w) < w.hidden && !f.cuts_narrow_experts;
    if (p.tp > 1 && f.expert_tensor_parallel)
        adopt.set("parallelism.expert_tensor_parallel", p.expert_tensor_parallel,
                  *f.expert_tensor_parallel && !narrow);
    if (p.ep > 1 && f.dispatch_once && w.moe.capacity_factor == 0)
        adopt.set("parallelism.dispatch_once", p.dispatch_once, true);
}

void adopt_split(Experiment& e, Adoption& adopt) {
    const Framework& f = e.framework;
    Parallelism& p = e.parallelism;
    adopt.set("parallelism.overlap_p2p", p.overlap_p2p, f.overlap_p2p);
    if (p.pp > 1 && p.vp == 1) adopt.set("parallelism.blocking_p2p", p.blocking_p2p, f.blocking_p2p);
    adopt.set("parallelism.overlap_weight_gradient", p.overlap_weight_gradient, f.overlap_weight_gradient);
    adopt.set("parallelism.fused_accumulation", p.fused_accumulation, f.fused_accumulation);
    adopt.set("parallelism.gather_copies", p.gather_copies, f.gather_copies);
    adopt.set("parallelism.eager", p.eager, f.eager);
    adopt.set("parallelism.eager_traffic", p.eager_traffic, f.eager_traffic);
    adopt.set("parallelism.unfused", p.unfused, f.unfused);
    adopt.set("parallelism.recompute_stops_early", p.recompute_stops_early, f.recompute_stops_early);
    if (p.zero == 3 && f.shard_rate != 0.0)
        adopt.set("cluster.link.inter.training", e.cluster.inter.training, f.shard_rate);
    if (f.gradients)
        adopt.set("parallelism.gradient_dtype", p.gradient_dtype, gradient_dtype(*f.gradients, e.workload.dtype));
    constexpr double everything = 1e12;  // more weights than any model has
    if (f.bucket_weights)
        adopt.set("parallelism.bucket", p.bucket,
                  (*f.bucket_weights > 0 ? *f.bucket_weights : everything) * size_of(p.gradient_dtype));
    Parallelism follows = p;
    follow_framework(f, follows);
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
    if (e.framework.expert_graphs && is_blackwell(e.cluster.gpu) && e.workload.moe.experts > 0)
        adopt.set("cluster.host.expert_layer", host.expert_layer, Seconds(0));
}

void give_back(Experiment& e) {
    const auto replaced = std::exchange(e.framework.replaced, {});
    for (auto one = replaced.rbegin(); one != replaced.rend(); ++one) assign_text(*find_key(one->key), e, one->text);
}

}  // namespace

bool decides(const Framework& framework, std::string_view key) {
    return !framework.name.empty() && std::find(decided.begin(), decided.end(), key) != decided.end();
}

void follow_framework(const Framework& f, Parallelism& p) {
    if (f.name.empty()) return;
    const auto set = [&](std::string_view key, bool& target, bool value) {
        if (!states(f, key)) target = value;
    };
    const bool sharded = p.zero == 3;  // gathers ahead of use whatever the framework
    if (f.overlap) set("parallelism.overlap", p.overlap, *f.overlap || sharded);
    if (f.overlap_params) set("parallelism.overlap_params", p.overlap_params, *f.overlap_params || sharded);
    if (f.overlap_tp) set("parallelism.overlap_tp", p.overlap_tp, *f.overlap_tp && p.sequence_parallel);
}

void adopt_framework(Experiment& e) {
    give_back(e);
    if (e.framework.name.empty() || e.workload.kind != Workload::Kind::transformer) return;
    Adoption adopt(e);
    adopt_split(e, adopt);
    adopt_workload(e, adopt);
    adopt_experts(e, adopt);
    adopt_host(e, adopt);
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
    return file_text(holder, framework_keys(), "framework.", framework.fitted);
}

}  // namespace stepcast
