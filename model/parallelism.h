// How the work is split over ranks.
#pragma once

#include <string>
#include <vector>

#include "model/base/dtype.h"
#include "model/base/units.h"
#include "model/input/keyed.h"
#include "model/recorded/moe/known_systems.h"
#include "model/transformer/known_schedules.h"

namespace stepcast {

// alternate: recomputes the memory passes and every second matrix product of each layer, but not
// attention or what tensor parallelism sums (torchtitan's selective_ac_option = "op").
NAMED_ENUM(Recompute, "a recompute mode", none, selective, full, alternate);

// How attention gets the keys of the other context-parallel ranks: around a ring during the
// computation, or gathered before it.
NAMED_ENUM_AS(ContextExchange, "a context exchange", "ring, all-gather", ring, all_gather);

// Where stages are cut: between layers, or as a tracing splitter does, after equal numbers of
// modules with a matrix product or an activation. These are the embedding, eight per gated layer
// (q, k, v, o, gate, activation, up, down) and the logits.
NAMED_ENUM(StageCut, "a cut of stages", layers, modules);

// Which chunks hold fewer layers than the others where `stage_layers` states none. even: as many in
// each as divide, the remainder spread. light_first, light_last, light_ends: the embedding, the
// logits, or each of them counts as one layer of its chunk, and the remainder is in the first
// chunks (Megatron-Core: account_for_embedding_in_pipeline_split,
// account_for_loss_in_pipeline_split). balanced: the fullest chunk has as few forward operations as
// whole layers allow, with those of the logits counted.
NAMED_ENUM(StageLayout, "a layout of stages", even, light_last, light_ends, light_first, balanced);

// How a rank's experts multiply. grouped: one kernel over all experts; casts and activation are
// separate passes. each: expert by expert, with separate kernels (Transformer Engine's
// GroupedLinear). fused: one kernel with activation and casts (its grouped MLP in MXFP8 and NVFP4,
// from 2.20 on); tokens are sorted by expert while they are sent.
NAMED_ENUM(ExpertProducts, "a kind of expert products", grouped, each, fused);

// Operators that a library writes in Python: each of their steps is a kernel
// (model/block/composed.h).
NAMED_ENUM(Composed, "a composed operator", norms, rotary, activation, experts, loss, column_sums,
           adapters);

// dp counts data-parallel replicas. Experts are spread over ep ranks of the dp x cp group (ep
// divides dp * cp). Ranks = dp * tp * pp * cp.
struct Parallelism {
    KEY(int, dp, 1, "data-parallel replicas", 1, upto::ranks);
    KEY(int, tp, 1, "tensor-parallel ranks", 1, upto::ranks);
    KEY(int, pp, 1, "pipeline stages", 1, upto::ranks);
    KEY(int, vp, 1, "model chunks of a stage (interleaving)", 1, 1024);
    KEY(int, ep, 1, "ranks that share the experts, out of dp x cp", 1, upto::ranks);
    KEY(int, cp, 1, "context-parallel ranks", 1, upto::ranks);
    KEY(bool, sequence_parallel, false, "split the sequence outside tensor-parallel blocks");
    KEY(int, zero, 0, "ZeRO stage", 0, 3);
    KEY(int, micro_batch, 1, "sequences per rank and micro-batch", 1, 1 << 20);
    KEY(int, global_batch, 0, "sequences per step over all ranks; 0 = dp x micro_batch", 0,
        1 << 28);
    KEY(Schedule, schedule, Schedule::one_f_one_b, "pipeline schedule");
    KEY(Recompute, recompute, Recompute::none, "activations computed again in backward");
    KEY(int, recompute_layers, 0,
        "full recompute: layers of a stage, shared out over its chunks; 0 = all", 0, 10000);
    KEY(bool, recompute_stops_early, false,
        "full recompute ends with the last tensor that the backward needs");
    KEY(StageCut, cut, StageCut::layers,
        "where stages are cut: between layers, or after equal numbers of modules");
    // and the final norm
    KEY(bool, head_apart, false, "cut by modules: the last stage holds the logits alone");
    KEY(std::vector<int>, stage_layers, {},
        "layers of each stage chunk, first to last; empty = even");
    // without sequence_parallel
    KEY(StageLayout, layout, StageLayout::even,
        "stage chunks that hold fewer layers, beside the embedding or the logits");
    KEY(bool, scatter_p2p, true,
        "each tensor-parallel rank sends its part to the next stage, then they gather");
    KEY(bool, overlap_p2p, true, "sends between stages overlap other tasks");
    KEY(bool, overlap_tp, false, "tensor-parallel collectives overlap GEMMs");  // in chunks
    KEY(bool, gather_copies, false,
        "tensor-parallel collectives of a split sequence that run by themselves put the whole in "
        "order by a copy ([batch, sequence, hidden])");
    KEY(bool, overlap_weight_gradient, true,
        "tensor-parallel collectives of the backward overlap the weight gradient");
    KEY(ContextExchange, context_exchange, ContextExchange::ring,
        "how keys and values of other context-parallel ranks arrive");
    // experts are spread inside cp and dp
    KEY(std::string, rank_order, "tp-cp-dp-pp", "order of the groups over ranks, innermost first");
    KEY(int, shard, 0, "zero 3: ranks that hold one copy between them, 2 or more; 0 = dp x cp", 0,
        upto::ranks);
    KEY(Dtype, gradient_dtype, Dtype::fp32, "element type of accumulated and reduced gradients");
    // PyTorch's set_to_none
    KEY(bool, frees_gradients, false, "gradients are freed after the update, not set to zero");
    // see Planner
    KEY(bool, eager, false,
        "element-wise passes run operation by operation, with twice the traffic");
    KEY(double, eager_traffic, 2, "eager: bytes of element-wise passes over those of fused ones",
        0.5, 10);
    KEY(std::vector<Composed>, composed, {},
        "operators that the library composes of PyTorch's: RMS norms, rotary positions, GELU in "
        "steps, passes around experts, cross entropy, gradients of biases and norms, adapters");
    // model/block/unfused.h
    KEY(bool, unfused, false, "each element-wise operation is a kernel by itself");
    // model/recorded/script/
    KEY(bool, eager_script, false,
        "one rank: each operator is the kernels that an eager PyTorch script launches for it");
    KEY(bool, fused_accumulation, true,
        "weight-gradient GEMMs add into the accumulated gradients themselves");
    // else ep includes those ranks
    KEY(bool, expert_tensor_parallel, true, "each expert is split over the tensor-parallel ranks");
    // DeepEP
    KEY(bool, dispatch_once, false,
        "a token goes once to a rank and once to a node, however many of its experts are there");
    KEY(ExpertProducts, expert_products, ExpertProducts::grouped,
        "a rank's experts multiply in one kernel, each by itself, or in one kernel with activation "
        "and casts");
    // Alternates layer by layer, with one more micro-batch in flight (Megatron-Core's
    // overlap_moe_expert_parallel_comm).
    KEY(bool, overlap_experts, false,
        "1f1b, dualpipe: a forward and a backward go by turns, all-to-alls of the one overlap the "
        "work of the other");
    KEY(Bytes, bucket, Bytes(25e6), "gradient bucket", 1, 1e15);
    KEY(bool, overlap, true, "gradient collectives overlap the backward");
    KEY(bool, overlap_params, true, "zero 1, 2: parameters are gathered during the next forward");
    KEY(int, overlap_chunks, 1, "alltoall: overlapping chunks of all-to-all and experts", 1, 64);
    KEY(MoeSystem, moe_system, MoeSystem::alltoall, "how the MoE layer runs");
    // What a hop between stages sends: model/transformer/hops.h.
    KEY(int, messages_per_tensor, 1,
        "messages that carry one tensor between stages: headers and data", 1, 1000);
    KEY(int, messages_per_tuple, 0, "messages that frame the tensors of one stage", 0, 1000);
    KEY(bool, resend_first_stage, false,
        "every later hop carries what the first stage sent once more");
    KEY(int, gradient_tensors, 0,
        "tensors of a hop back, those without data too; 0 = the tensors of the cut", 0, 1000);
    // in sequence; these hosts run nothing else meanwhile
    KEY(bool, blocking_p2p, false, "each message between stages holds the hosts of both ends");
    KEY(bool, clip_per_rank, false,
        "the gradient norm is each stage's own, not summed over stages");
    KEY(bool, join_tied, true, "stages that share tied embeddings sum their gradients");
    friend bool operator==(const Parallelism&, const Parallelism&) = default;
};

// Whether layers run again before their backward: all, or recompute_layers of a stage.
inline bool recomputes_layers(const Parallelism& p) {
    return p.recompute == Recompute::full || p.recompute == Recompute::alternate;
}

// Sequences of a step over all ranks. Without a global batch, each replica runs one micro-batch.
inline int sequences_of_step(const Parallelism& p) {
    return p.global_batch > 0 ? p.global_batch : p.dp * p.micro_batch;
}

// Micro-batches of one step on each data-parallel replica.
inline int micro_batches(const Parallelism& p) {
    return p.global_batch == 0 ? 1 : p.global_batch / (p.dp * p.micro_batch);
}

}  // namespace stepcast
