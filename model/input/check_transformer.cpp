#include "model/input/check_transformer.h"

#include "model/base/refuse.h"
#include "model/input/split_rules.h"
#include "model/recorded/opt_prime/modules.h"
#include "model/runtime_rules.h"
#include "model/transformer/chunks.h"
#include "model/transformer/counts.h"

namespace stepcast {
namespace {

void check_latents(const Mla& mla) {
    if (mla.nope_dim + mla.rope_dim < 1)
        refuse("workload.mla.nope_dim: missing; workload.mla.kv_rank is {}", mla.kv_rank);
    if (mla.value_dim < 1)
        refuse("workload.mla.value_dim: missing; workload.mla.kv_rank is {}", mla.kv_rank);
}

void check_heads(const Experiment& e) {
    const Workload& w = e.workload;
    if (w.heads < 1) refuse("workload.heads: missing; expected attention heads");
    if (is_latent(w)) return check_latents(w.mla);
    if (e.overlay.asks_latent) refuse("workload.mla.kv_rank: missing; workload.attention is mla");
    if (w.head_dim == 0 && w.hidden % w.heads != 0)
        refuse(
            "workload.heads: {} does not divide workload.hidden = {}; expected a divisor, or "
            "workload.head_dim",
            w.heads, w.hidden);
    if (w.heads % kv_heads(w) != 0)
        refuse("workload.kv_heads: {} does not divide workload.heads = {}", kv_heads(w), w.heads);
}

void check_experts(const Workload& w) {
    if (w.moe.experts == 0) return;
    for (int layer = 0; layer < w.layers; ++layer)
        if (has_experts(w, layer)) return;
    refuse(
        "workload.moe.experts: {}, but no layer has any with workload.moe.dense_layers = {} and "
        "interval = {} of {} "
        "layers",
        w.moe.experts, w.moe.dense_layers, w.moe.interval, w.layers);
}

// What the kernels of gated delta nets and of sparse attention are known for. Megatron-Core 0.16.0
// runs neither with a split context (ssm/gated_delta_net.py, transformer_config.py) and has sparse
// attention for latent attention only (experimental_attention_variant_module_specs.py).
void check_delta(const Experiment& e) {
    const Workload& w = e.workload;
    const Parallelism& p = e.parallelism;
    if (w.delta.value_heads == 0) return;
    const int keys = delta_key_heads(w), values = w.delta.value_heads;
    if (values % keys != 0)
        refuse("workload.delta.key_heads: {} does not divide workload.delta.value_heads = {}", keys,
               values);
    if (w.mamba.heads > 0 || w.positions == Positions::relative || is_written_out(e) ||
        p.moe_system != MoeSystem::alltoall || p.cut == StageCut::modules)
        refuse(
            "workload.delta.value_heads: {}, which is modelled without Mamba-2 blocks, memory and "
            "passes operation by operation, for stages of whole layers and moe_system alltoall; "
            "expected 0",
            values);
}

void check_indexer(const Experiment& e) {
    const Workload& w = e.workload;
    if (w.indexer.heads == 0) return;
    if (!is_latent(w) || !w.causal || w.window > 0 || is_written_out(e))
        refuse(
            "workload.indexer.heads: {}, which is modelled for causal MLA without a window and in "
            "fused passes; expected workload.mla.kv_rank above 0, or 0",
            w.indexer.heads);
}

// Cuts between layers and behind up_proj are modelled.
void check_cut_modules(const Workload& w, const Parallelism& p) {
    if (module_count(w) / p.pp < 1)
        refuse("parallelism.pp: {} stages of {} modules", p.pp, module_count(w));
    for (int g = 1; g < p.pp; ++g) {
        // counted from the first module of the layers
        const int before = first_module(w, p, g) - 1;
        if (const int part = before % modules_per_layer; part != 0 && part != modules_per_layer - 1)
            refuse(
                "parallelism.pp: {} stages of {} modules cut layer {} behind {}; a cut is modelled "
                "between layers and "
                "behind up_proj",
                p.pp, module_count(w), before / modules_per_layer, layer_modules[part - 1]);
    }
}

// The blocking messages of pipelines that are cut by modules, and their head.
void check_messages(const Experiment& e) {
    const Parallelism& p = e.parallelism;
    if (e.runtime.pipeline.blocking && (p.vp > 1 || traits(p.schedule).splits_backward))
        refuse(
            "runtime.pipeline.blocking: true, but schedule {} with vp = {} would wait for itself; "
            "expected gpipe or "
            "1f1b with vp = 1",
            to_string(p.schedule), p.vp);
    if (p.head_apart && (p.cut == StageCut::layers || p.pp == 1))
        refuse(
            "parallelism.head_apart: true, but stages are cut by {}, {} of them; expected "
            "parallelism.cut = modules and "
            "pp > 1 (by layers: a last 0 in stage_layers)",
            to_string(p.cut), p.pp);
}

// The cases that the splitter's cut by modules is modelled for.
void check_cut(const Experiment& e) {
    const Workload& w = e.workload;
    const Parallelism& p = e.parallelism;
    if (p.cut == StageCut::layers) return;
    if (!w.gated || e.runtime.fused_projections || w.moe.experts > 0 || is_latent(w))
        refuse(
            "parallelism.cut: modules, but the workload's layers are not made of q, k, v, o, gate, "
            "act, up, down; expected workload.gated = true, runtime.fused_projections = false, no "
            "experts, no MLA");
    if (w.adapter_rank > 0)
        refuse(
            "parallelism.cut: modules is modelled for layers that are trained, but "
            "workload.adapter_rank is {}; expected 0",
            w.adapter_rank);
    if (p.vp > 1 || p.tp > 1 || recomputes_layers(p) || !p.stage_layers.empty() ||
        traits(p.schedule).splits_backward)
        refuse(
            "parallelism.cut: modules is modelled with schedule gpipe or 1f1b, vp = 1, tp = 1, "
            "without full recompute "
            "and without stage_layers");
    check_cut_modules(w, p);
}

// What splits of a workload allow stands in split_rules.cpp.
void check_pairs(const Experiment& e) {
    const Parallelism& p = e.parallelism;
    if (!p.overlap_experts) return;
    if (e.workload.moe.experts == 0 || p.moe_system != MoeSystem::alltoall || is_written_out(e))
        refuse(
            "parallelism.overlap_experts: true is modelled for experts of moe_system alltoall and "
            "fused passes; expected false");
}

// The MoE systems of model/moe write the tasks of all ranks of one expert-parallel group.
void check_moe_system(const Workload& w, const Parallelism& p) {
    if (p.moe_system == MoeSystem::alltoall || w.moe.experts == 0) return;
    const auto system = to_string(p.moe_system);
    if (ranks_of_replica(p) != 1 || p.ep != p.dp)
        refuse(
            "parallelism.moe_system: {} spreads its experts over all data-parallel ranks; expected "
            "tp, pp and cp of 1 and "
            "ep = dp = {}",
            system, p.dp);
    if (p.zero == 3 || p.recompute != Recompute::none)
        refuse("parallelism.moe_system: {}, with which neither zero 3 nor recompute is modelled",
               system);
    if (w.moe.shared_experts > 0 || w.moe.capacity_factor > 0)
        refuse("workload.moe: {} has no shared experts and no capacity; expected 0", system);
}

void check_window(const Workload& w) {
    if (w.window == 0) return;
    if (!w.causal || w.positions == Positions::relative)
        refuse(
            "workload.window: {}, which is modelled for causal attention without memory; expected "
            "0",
            w.window);
}

void check_prediction(const Experiment& e) {
    const Workload& w = e.workload;
    const Parallelism& p = e.parallelism;
    if (w.mtp_layers == 0) return;
    if (runs_operations(e) || p.moe_system != MoeSystem::alltoall || w.head == Head::span ||
        w.adapter_rank > 0 || p.cut == StageCut::modules)
        refuse(
            "workload.mtp_layers: {}, which is modelled for fused kernels, all-to-all, logits and "
            "whole layers that are "
            "trained; expected 0",
            w.mtp_layers);
}

void check_reference(const Experiment& e) {
    const Workload& w = e.workload;
    if (w.reference == Reference::none) return;
    if (e.parallelism.moe_system != MoeSystem::alltoall || runs_script(e) || w.mtp_layers > 0)
        refuse(
            "workload.reference: {}, whose forward is modelled with all-to-alls, without "
            "multi-token prediction and without kernels of a script; expected none",
            to_string(w.reference));
    if (w.reference == Reference::base && w.adapter_rank == 0)
        refuse(
            "workload.reference: base is what adapters stand beside, but workload.adapter_rank is "
            "0; expected copy, or a rank");
}

void check_positions(const Experiment& e) {
    const Workload& w = e.workload;
    const bool relative = w.positions == Positions::relative;
    if (w.memory > 0 && !relative)
        refuse("workload.memory: {}, but only workload.positions relative has one; expected 0",
               w.memory);
    if (relative && !runs_operations(e))
        refuse(
            "runtime.kernels: {}, but relative positions are known operation by operation only; "
            "expected operations",
            to_string(e.runtime.kernels));
}

// What only some styles of attention and of blocks have.
void check_extras(const Experiment& e) {
    const Workload& w = e.workload;
    const bool without_norms = w.positions == Positions::relative || runs_script(e),
               without_gate = without_norms || is_latent(w);
    if (e.runtime.row_scales && !is_narrow(w.dtype))
        refuse(
            "runtime.row_scales: true, but products in {} have no scales; expected workload.dtype "
            "fp8",
            to_string(w.dtype));
    if (w.qk_norm && without_gate)
        refuse(
            "workload.qk_norm: true, but MLA, relative attention and eager scripts have no norms "
            "of queries and keys; expected false");
    if (w.attention_gate && without_gate)
        refuse(
            "workload.attention_gate: true, but MLA, relative attention and eager scripts have no "
            "gate of what attention gives; expected false");
    if (w.post_norms && without_norms)
        refuse(
            "workload.post_norms: true, but relative attention and eager scripts have no norms "
            "behind blocks; expected false");
    if (e.runtime.autocast && e.runtime.kernels == KernelStyle::fused)
        refuse(
            "runtime.autocast: true, but runtime.kernels is fused; expected eager or operations");
}

// The style that runs operation by operation cannot split blocks over tensor-parallel or
// context-parallel ranks.
void check_operations(const Experiment& e) {
    const Workload& w = e.workload;
    const Parallelism& p = e.parallelism;
    if (!runs_operations(e)) return;
    if (p.recompute == Recompute::selective || p.recompute == Recompute::alternate)
        refuse(
            "parallelism.recompute: {}, which is not modelled with runtime.kernels = operations; "
            "expected "
            "none or full",
            to_string(p.recompute));
    if (p.tp * p.cp != 1)
        refuse(
            "runtime.kernels: operations, which is not modelled with tp = {} and cp = {}; expected "
            "1",
            p.tp, p.cp);
    if (w.gated || attention_kernel(e) != AttentionKind::plain || w.positions == Positions::rotary)
        refuse(
            "runtime.kernels: operations, which is modelled for plain attention without rotary "
            "positions and a feed-forward "
            "block without gate");
}

// The cases that losses without logits are modelled for.
void check_loss(const Experiment& e) {
    if (keeps_logits(e)) return;
    if (is_written_out(e) || e.parallelism.tp > 1 || e.runtime.loss.pieces > 1 ||
        !e.runtime.loss.in_forward || e.workload.head == Head::span)
        refuse(
            "runtime.loss.logits: {}, which is modelled for a matrix that one rank holds, under a "
            "framework; expected whole, or tp = 1, runtime.kernels fused or eager, loss.pieces = "
            "1, loss.in_forward = true and workload.head other than span",
            to_string(e.runtime.loss.logits));
}

}  // namespace

void check_transformer(const Experiment& e) {
    const auto& w = e.workload;
    const auto& p = e.parallelism;
    check_heads(e);
    if (w.vocab < 1) refuse("workload.vocab: missing; expected vocabulary");
    check_experts(w);
    check_delta(e);
    check_indexer(e);
    refuse_split(e, RuleOf::transformers);
    check_messages(e);
    check_cut(e);
    check_moe_system(w, p);
    check_window(w);
    check_prediction(e);
    check_reference(e);
    check_positions(e);
    check_extras(e);
    check_operations(e);
    check_loss(e);
    check_pairs(e);
    if (p.overlap_chunks != 1)
        refuse(
            "parallelism.overlap_chunks: {}, but workload.kind transformer does not model it; "
            "expected 1",
            p.overlap_chunks);
}

}  // namespace stepcast
