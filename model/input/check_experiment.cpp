#include "model/input/check_experiment.h"

#include "model/base/refuse.h"
#include "model/input/check_cluster.h"
#include "model/input/check_transformer.h"
#include "model/input/keys.h"
#include "model/input/split_rules.h"
#include "model/machine/allocator_settings.h"
#include "model/rank_groups.h"
#include "model/recorded/coca/check.h"
#include "model/recorded/script/steps.h"
#include "model/routing_file.h"
#include "model/runtime_rules.h"

namespace stepcast {
namespace {

void check_rank_count(const Experiment& e) {
    const auto there = static_cast<long>(e.cluster.nodes) * e.cluster.gpus_per_node;
    if (constexpr long most = 1 << 20; there > most)
        refuse("cluster.nodes: {} x gpus_per_node {} = {} ranks; expected at most {}",
               e.cluster.nodes, e.cluster.gpus_per_node, there, most);
}

void check_experts(const Experiment& e) {
    const auto& moe = e.workload.moe;
    if (const auto kind = e.workload.kind;
        kind == Workload::Kind::mlp || kind == Workload::Kind::coca) {
        if (moe.experts != 0)
            refuse("workload.moe.experts: {}, but workload.kind {} is dense; expected 0",
                   moe.experts, to_string(kind));
        if (e.parallelism.ep != 1)
            refuse("parallelism.ep: {}, but workload.kind {} has no experts; expected 1",
                   e.parallelism.ep, to_string(kind));
        return;
    }
    if (e.workload.kind == Workload::Kind::transformer && moe.experts == 0) return;
    if (moe.experts < 1)
        refuse("workload.moe.experts: missing; expected the experts of a layer over all ranks");
    if (moe.top_k > moe.experts)
        refuse("workload.moe.top_k: {} is above the {} experts that there are", moe.top_k,
               moe.experts);
}

void check_dropout(const Experiment& e) {
    if (e.workload.dropout >= 1)
        refuse("workload.dropout: {} drops everything; expected below 1", e.workload.dropout);
}

// Keys that only a transformer step uses, and optimizer keys, which a single MoE layer does not
// use.
constexpr std::string_view keys_of_transformers[] = {"parallelism.tp",
                                                     "parallelism.pp",
                                                     "parallelism.vp",
                                                     "parallelism.cp",
                                                     "parallelism.sequence_parallel",
                                                     "parallelism.zero",
                                                     "parallelism.shard",
                                                     "parallelism.schedule",
                                                     "parallelism.stage_layers",
                                                     "parallelism.layout",
                                                     "parallelism.recompute",
                                                     "parallelism.recompute_layers",
                                                     "parallelism.recompute_modules",
                                                     "runtime.exchanges.tensor",
                                                     "parallelism.cut",
                                                     "runtime.pipeline.blocking",
                                                     "runtime.pipeline.messages_per_tensor",
                                                     "runtime.pipeline.messages_per_tuple",
                                                     "runtime.pipeline.resend_first_stage",
                                                     "runtime.pipeline.gradient_tensors",
                                                     "runtime.gradients.clip_per_rank",
                                                     "runtime.gather_copies",
                                                     "runtime.composed",
                                                     "runtime.loss.logits",
                                                     "parallelism.overlap_experts",
                                                     "workload.qk_norm",
                                                     "workload.attention_gate",
                                                     "workload.post_norms",
                                                     "runtime.fused_projections",
                                                     "runtime.fused_gate",
                                                     "runtime.row_scales",
                                                     "workload.adapter_rank",
                                                     "workload.adapter_on",
                                                     "workload.adapter_modules",
                                                     "workload.frozen",
                                                     "workload.reference",
                                                     "workload.reference_forwards",
                                                     "workload.moe.ffn",
                                                     "workload.moe.capacity_factor",
                                                     "workload.moe.shared_experts",
                                                     "workload.moe.dense_layers",
                                                     "workload.moe.interval",
                                                     "workload.moe.shared_gate",
                                                     "workload.gated"};

void check_modelled(const Experiment& e) {
    const auto kind = e.workload.kind;
    if (kind == Workload::Kind::transformer || kind == Workload::Kind::coca) return;
    for (const auto path : keys_of_transformers) check_default(e, path);
    check_default(
        e, kind == Workload::Kind::moe_layer ? "workload.optimizer" : "parallelism.moe_system");
}

// What goes to the host besides the optimizer.
void check_offload(const Experiment& e) {
    const Parallelism& p = e.parallelism;
    const bool transformer = e.workload.kind == Workload::Kind::transformer && !runs_script(e);
    if (e.run.offload_parameters &&
        (!transformer || p.zero != 3 || p.pp > 1 || !e.run.offload_optimizer))
        refuse(
            "run.offload_parameters: of transformers under a framework with zero 3, one pipeline "
            "stage and run.offload_optimizer = true, as the host updates what it keeps; expected "
            "these, or false");
    if (e.run.offload_activations != ActivationOffload::none &&
        (!transformer || p.recompute == Recompute::alternate || p.overlap_experts ||
         p.cut == StageCut::modules))
        refuse(
            "run.offload_activations: {}, but it is whole layers of a transformer under a "
            "framework whose tensors wait on the host; expected such, recompute other than "
            "alternate, no overlap_experts and cut = layers, or none",
            to_string(e.run.offload_activations));
}

void check_updates_elsewhere(const Experiment& e) {
    const Optimizer optimizer = e.workload.optimizer;
    const bool transformer = e.workload.kind == Workload::Kind::transformer;
    if (e.run.paged_optimizer &&
        (!transformer || runs_script(e) || e.run.offload_optimizer ||
         (optimizer != Optimizer::adam && optimizer != Optimizer::adam8bit)))
        refuse(
            "run.paged_optimizer: of transformers under a framework with workload.optimizer adam "
            "or adam8bit on the device (bitsandbytes' PagedAdamW); expected such, or false");
    if (!e.run.offload_optimizer) return;
    if (!transformer || runs_script(e))
        refuse("run.offload_optimizer: of transformers under a framework only; expected false");
    if (optimizer != Optimizer::adam)
        refuse(
            "run.offload_optimizer: workload.optimizer is {}, but what updates on the host is "
            "Adam (DeepSpeedCPUAdam, Megatron-Core's HybridDeviceOptimizer); expected adam",
            to_string(optimizer));
}

void check_optimizer(const Experiment& e) {
    const Optimizer optimizer = e.workload.optimizer;
    const bool transformer = e.workload.kind == Workload::Kind::transformer;
    if (!transformer && (optimizer == Optimizer::adam8bit || optimizer == Optimizer::adafactor ||
                         optimizer == Optimizer::muon))
        refuse("workload.optimizer: {} is of transformers; expected none, sgd, adam or lamb",
               to_string(optimizer));
    if (optimizer == Optimizer::muon &&
        (e.workload.adapter_rank > 0 || e.parallelism.cut == StageCut::modules))
        refuse(
            "workload.optimizer: muon updates whole matrices; expected workload.adapter_rank = 0 "
            "and parallelism.cut = layers, or another optimizer");
    check_offload(e);
    check_updates_elsewhere(e);
}

void check_moe_system(const Experiment& e) {
    const auto& p = e.parallelism;
    if (e.workload.kind != Workload::Kind::moe_layer) return;
    if (p.ep != rank_count(e.cluster))
        refuse("parallelism.ep: {}, but {} spreads its experts over all {} ranks", p.ep,
               to_string(p.moe_system), rank_count(e.cluster));
    if (p.moe_system != MoeSystem::alltoall && p.overlap_chunks != 1)
        refuse("parallelism.overlap_chunks: {}, but {} has no overlapping chunks; expected 1",
               p.overlap_chunks, to_string(p.moe_system));
    if (runs_operations(e) && (p.moe_system != MoeSystem::alltoall || p.overlap_chunks != 1))
        refuse(
            "runtime.kernels: operations, which of a moe_layer is modelled for alltoall without "
            "overlap_chunks; expected fused");
}

void check_peak(const Experiment& e) { (void)peak(e.cluster.gpu, e.workload.dtype); }

void check_routing_file(const Experiment& e) {
    if (e.routing.kind != RoutingSpec::Kind::file) return;
    if (e.routing.file.empty()) refuse("routing.file: missing; routing.kind is file");
    const auto routing = read_routing(e.routing.file);
    if (routing.experts != e.workload.moe.experts)
        refuse("workload.moe.experts: {}, but routing file {} has {} experts",
               e.workload.moe.experts, e.routing.file, routing.experts);
    if (routing.ranks != rank_count(e.cluster))
        refuse("routing.file: {} has {} ranks, but cluster has {}", e.routing.file, routing.ranks,
               rank_count(e.cluster));
}

}  // namespace

void check_default(const Experiment& e, std::string_view path) {
    static const Experiment defaults;  // static, because the check runs for every point of a sweep
    const auto& key = *find_key(path);
    if (const auto found = text_of(key, e), expected = text_of(key, defaults); found != expected)
        refuse("{}: {}, but workload.kind {} does not model it; expected {}", path, found,
               to_string(e.workload.kind), expected);
}

void check_experiment(const Experiment& experiment) {
    check_required(experiment);
    check_modelled(experiment);
    check_rank_count(experiment);
    refuse_split(experiment, RuleOf::ranks);
    check_routing_file(experiment);
    (void)rank_groups(experiment);
    check_experts(experiment);
    refuse_split(experiment, RuleOf::any_workload);
    check_dropout(experiment);
    check_moe_system(experiment);
    check_optimizer(experiment);
    if (experiment.workload.kind == Workload::Kind::transformer) check_transformer(experiment);
    if (experiment.workload.kind == Workload::Kind::coca) check_coca(experiment);
    if (runs_script(experiment)) check_eager(experiment);
    if (const std::string& settings = experiment.run.allocator; !settings.empty())
        (void)at_place("run.allocator", [&] { return parse_allocator_settings(settings); });
    check_cluster(experiment.cluster);
    check_peak(experiment);
}

}  // namespace stepcast
