// What keys of [runtime] mean for a step, where other keys take part. Builders, memory, bounds and
// launch scripts ask these functions instead of the keys behind them.
#pragma once

#include <algorithm>

#include "model/experiment.h"
#include "model/machine/generation.h"
#include "model/transformer/counts.h"

namespace stepcast {

// A split with the switches of its exchanges: what a sweep walks in one cost model.
struct ParallelPlan {
    Parallelism parallelism;
    Exchanges exchanges;
    friend bool operator==(const ParallelPlan&, const ParallelPlan&) = default;
};
inline ParallelPlan plan_of(const Experiment& e) { return {e.parallelism, e.runtime.exchanges}; }
inline void set_plan(Experiment& e, const ParallelPlan& plan) {
    e.parallelism = plan.parallelism;
    e.runtime.exchanges = plan.exchanges;
}

inline bool is_eager(const Experiment& e) { return e.runtime.kernels == KernelStyle::eager; }
inline bool runs_operations(const Experiment& e) {
    return e.runtime.kernels == KernelStyle::operations;
}
inline bool runs_script(const Experiment& e) { return e.runtime.kernels == KernelStyle::script; }
// Each operation is a kernel of its own, so nothing is fused or composed further.
inline bool is_written_out(const Experiment& e) { return runs_operations(e) || runs_script(e); }

// Whether a tensor holds all logits of a micro-batch.
inline bool keeps_logits(const Experiment& e) { return e.runtime.loss.logits == LogitsKept::whole; }

inline bool composes(const Experiment& e, Composed op) {
    return !is_written_out(e) &&
           std::ranges::find(e.runtime.composed, op) != e.runtime.composed.end();
}

// Latent attention and relative positions have projections of their own.
inline bool has_own_projections(const Workload& w) {
    return is_latent(w) || w.positions == Positions::relative;
}

// Latent attention is one kernel that keeps the scores on chip, whatever kernel other attention
// has.
inline AttentionKind attention_kernel(const Experiment& e) {
    return is_latent(e.workload) ? AttentionKind::flash : e.runtime.attention;
}

// Whether weights, norms and residuals are in fp32 and fused passes cast around 16-bit products
// (automatic casting).
inline bool casts_weights(const Experiment& e) {
    return e.runtime.autocast && !runs_operations(e) &&
           size_of(between_products(e.workload.dtype)) < size_of(Dtype::fp32);
}

// Whether the weights that a rank keeps are the fp32 ones that the optimizer updates. Under zero 2
// and in pipelines of zero 3 a step's gathered 16-bit weights last, as if they were kept.
inline bool keeps_wide_weights(const Experiment& e) {
    if (casts_weights(e)) return true;
    const Parallelism& p = e.parallelism;
    const bool whole = p.zero == 0 || p.dp * p.cp == 1, sharded = p.zero == 3 && p.pp == 1;
    return e.runtime.wide_weights && e.runtime.optimizer.master_weights && (whole || sharded) &&
           e.workload.adapter_rank == 0 && !e.run.offload_optimizer && !runs_operations(e) &&
           size_of(between_products(e.workload.dtype)) < size_of(Dtype::fp32);
}
// Whether a forward makes 16-bit copies that last until the backward. Gathers cast on their way.
inline bool makes_casts(const Experiment& e) {
    const Parallelism& p = e.parallelism;
    return casts_weights(e) || (keeps_wide_weights(e) && (p.zero < 3 || p.dp * p.cp == 1));
}

inline Dtype gradient_type(const Experiment& e) {
    switch (e.runtime.gradients.type) {
        case GradientType::fp32: return Dtype::fp32;
        case GradientType::fp16: return Dtype::fp16;
        case GradientType::bf16: return Dtype::bf16;
        case GradientType::training: break;
    }
    return e.workload.dtype == Dtype::tf32 ? Dtype::fp32 : between_products(e.workload.dtype);
}
inline Bytes bucket_bytes(const Experiment& e) {
    const bool mlp = e.workload.kind == Workload::Kind::mlp;
    return e.runtime.gradients.bucket.bytes(size_of(mlp ? e.workload.dtype : gradient_type(e)));
}

// PEFT keeps the adapters of a 16-bit model in fp32 (autocast_adapter_dtype), with gradients and
// moments of that type.
inline bool widens_adapters(const Experiment& e) {
    return e.workload.adapter_rank > 0 && composes(e, Composed::adapters);
}
// Types of the weights that are trained, as stored, and of their gradients.
inline Dtype trained_dtype(const Experiment& e) {
    const Dtype own = between_products(e.workload.dtype);
    return widens_adapters(e) && size_of(own) < size_of(Dtype::fp32) ? Dtype::fp32 : own;
}
inline Dtype trained_gradients(const Experiment& e) {
    return widens_adapters(e) ? Dtype::fp32 : gradient_type(e);
}

// ZeRO 3 gathers parameters ahead of their use in any framework.
inline bool overlaps_gradients(const Exchanges& x, const Parallelism& p) {
    return x.gradients == GradientOverlap::always ||
           (x.gradients == GradientOverlap::zero3 && p.zero == 3);
}
inline bool overlaps_gradients(const Experiment& e) {
    return overlaps_gradients(e.runtime.exchanges, e.parallelism);
}
inline bool overlaps_parameters(const Experiment& e) {
    return e.runtime.exchanges.parameters || e.parallelism.zero == 3;
}
inline bool overlaps_tensor(const Exchanges& x, const Parallelism& p) {
    return x.tensor == TensorOverlap::always ||
           (x.tensor == TensorOverlap::split_sequence && p.sequence_parallel);
}
inline bool overlaps_tensor(const Experiment& e) {
    return overlaps_tensor(e.runtime.exchanges, e.parallelism);
}

// Whether each expert is split over the tensor-parallel ranks; else ep includes those ranks.
inline bool splits_experts(const Workload& w, const ExpertKernels& experts) {
    switch (experts.tensor_parallel) {
        case ExpertSplit::all: return true;
        case ExpertSplit::none: return false;
        case ExpertSplit::wide: break;
    }
    return w.moe.experts == 0 || expert_ffn(w) >= w.hidden;
}
inline bool splits_experts(const Experiment& e) {
    return splits_experts(e.workload, e.runtime.experts);
}
// Tensor-parallel ranks that hold one expert between them.
inline int ranks_of_expert(const Experiment& e) { return splits_experts(e) ? e.parallelism.tp : 1; }
inline bool sends_once(const Experiment& e) {
    const TokenDispatch how = e.runtime.experts.dispatch;
    return how == TokenDispatch::once ||
           (how == TokenDispatch::once_dropless && e.workload.moe.experts > 0 &&
            e.parallelism.ep > 1 && e.workload.moe.capacity_factor == 0);
}

// Gradients of which nothing stays on the device from one micro-batch to the next.
inline bool sends_gradients_to_host(const Experiment& e) {
    return e.run.offload_optimizer && e.runtime.optimizer.host_gradients;
}

// Whether weights are the host's, and each pass of a unit brings them.
inline bool keeps_weights_on_host(const Experiment& e) {
    return e.run.offload_parameters && e.parallelism.zero == 3;
}

// Gradients that are copied into flat buckets, and whether they exist only from a backward to the
// update: zero 3 keeps a rank's part of flat ones.
inline bool has_flat_gradients(const Experiment& e) {
    return e.runtime.gradients.flat && e.parallelism.zero > 0;
}
inline bool frees_gradients(const Experiment& e) {
    return e.runtime.gradients.freed && !(has_flat_gradients(e) && e.parallelism.zero == 3);
}

// Whether each module gathers its own weights for a pass and frees them after it.
inline bool gathers_by_module(const Experiment& e) {
    return e.runtime.module_hooks && e.parallelism.zero == 3 && e.parallelism.pp == 1 &&
           e.workload.adapter_rank == 0;
}

// Loops around the optimizer visit the parameters of a layer, or the two tensors of each expert.
inline bool visits_experts(const Experiment& e) {
    const OptimizerKernels& o = e.runtime.optimizer;
    return o.groups == 0 && o.groups_a_layer == 0 && o.visits_experts && e.workload.moe.experts > 0;
}
inline int optimizer_groups(const Experiment& e) {
    const OptimizerKernels& o = e.runtime.optimizer;
    const Workload& w = e.workload;
    if (o.groups > 0) return o.groups;
    if (o.groups_a_layer > 0) return o.groups_a_layer * (w.layers + 1);
    if (!visits_experts(e)) return 1;
    return 1 + 2 * (w.moe.experts / e.parallelism.ep) * (w.layers / e.parallelism.pp);
}
}  // namespace stepcast
