// How the work is split over ranks.
#pragma once

#include <algorithm>
#include <optional>
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

// What selective recompute runs again, in Megatron-Core's words (0.16.1, transformer_config.py:
// recompute_modules). core_attn: attention between its projections. layernorm: norms that are no
// part of a product's kernel, which Transformer Engine's specification has before latent attention
// and before experts. moe_act: the activation between an expert's products. mla_up_proj: latent
// attention's products up from the latents, and rotary positions. mlp: a dense feed-forward with
// its norm. moe: router, exchanges and experts, the shared ones included. shared_experts: these
// alone. Of layernorm, moe_act and mla_up_proj the results are not kept, of the others nothing but
// the input.
NAMED_ENUM(RecomputedModule, "a recomputed module", core_attn, layernorm, moe_act, mla_up_proj, mlp,
           moe, shared_experts);

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

// dp counts data-parallel replicas. Experts are spread over ep ranks of the dp x cp group (ep
// divides dp * cp). Ranks = dp * tp * pp * cp.
struct Parallelism {
    KEY(int, dp, 1, "data-parallel replicas", 1, upto::ranks,
        Affects::ranks | Affects::shape | Affects::pipeline | Affects::memory);
    KEY(int, tp, 1, "tensor-parallel ranks", 1, upto::ranks,
        Affects::ranks | Affects::shape | Affects::memory);
    KEY(int, pp, 1, "pipeline stages", 1, upto::ranks,
        Affects::ranks | Affects::shape | Affects::pipeline | Affects::memory);
    KEY(int, vp, 1, "model chunks of a stage (interleaving)", 1, 1024,
        Affects::pipeline | Affects::memory);
    KEY(int, ep, 1, "ranks that share the experts, out of dp x cp", 1, upto::ranks,
        Affects::ranks | Affects::shape | Affects::memory);
    KEY(int, cp, 1, "context-parallel ranks", 1, upto::ranks,
        Affects::ranks | Affects::shape | Affects::memory);
    KEY(bool, sequence_parallel, false, "split the sequence outside tensor-parallel blocks",
        Affects::shape | Affects::memory);
    KEY(int, zero, 0, "ZeRO stage", 0, 3, Affects::shape | Affects::data | Affects::memory);
    KEY(int, micro_batch, 1, "sequences per rank and micro-batch", 1, 1 << 20,
        Affects::shape | Affects::pipeline | Affects::memory);
    KEY(int, global_batch, 0, "sequences per step over all ranks; 0 = dp x micro_batch", 0, 1 << 28,
        Affects::shape | Affects::pipeline | Affects::memory);
    KEY(Schedule, schedule, Schedule::one_f_one_b, "pipeline schedule",
        Affects::pipeline | Affects::memory);
    KEY(Recompute, recompute, Recompute::none, "activations computed again in backward",
        Affects::shape | Affects::pipeline | Affects::memory);
    KEY(int, recompute_layers, 0,
        "full recompute: layers of a stage, shared out over its chunks; 0 = all", 0, 10000,
        Affects::pipeline | Affects::memory);
    KEY(std::vector<RecomputedModule>, recompute_modules, {},
        "selective recompute: the modules of a layer that run again; empty = core_attn",
        Affects::shape | Affects::memory);
    KEY(StageCut, cut, StageCut::layers,
        "where stages are cut: between layers, or after equal numbers of modules");
    // and the final norm
    KEY(bool, head_apart, false, "cut by modules: the last stage holds the logits alone");
    KEY(std::vector<int>, stage_layers, {},
        "layers of each stage chunk, first to last; empty = even",
        Affects::pipeline | Affects::memory);
    KEY(StageLayout, layout, StageLayout::even,
        "stage chunks that hold fewer layers, beside the embedding or the logits",
        Affects::pipeline | Affects::memory);
    // experts are spread inside cp and dp
    KEY(std::string, rank_order, "tp-cp-dp-pp", "order of the groups over ranks, innermost first",
        Affects::ranks | Affects::shape);
    KEY(int, shard, 0, "zero 3: ranks that hold one copy between them, 2 or more; 0 = dp x cp", 0,
        upto::ranks, Affects::ranks | Affects::shape | Affects::memory);
    // Alternates layer by layer, with one more micro-batch in flight (Megatron-Core's
    // overlap_moe_expert_parallel_comm).
    KEY(bool, overlap_experts, false,
        "1f1b, dualpipe: a forward and a backward go by turns, all-to-alls of the one overlap the "
        "work of the other",
        Affects::shape | Affects::pipeline | Affects::memory);
    KEY(int, overlap_chunks, 1, "alltoall: overlapping chunks of all-to-all and experts", 1, 64);
    KEY(MoeSystem, moe_system, MoeSystem::alltoall, "how the MoE layer runs");
    friend bool operator==(const Parallelism&, const Parallelism&) = default;
};

// Ranks that hold one copy of the model, and those of all copies.
inline long ranks_of_replica(const Parallelism& p) { return long{p.tp} * p.cp * p.pp; }
inline long ranks_of_all(const Parallelism& p) { return ranks_of_replica(p) * p.dp; }

// Ranks that compute with the same weights, each on tokens of its own; ZeRO shards over them.
inline int ranks_of_weights(const Parallelism& p) { return p.dp * p.cp; }
inline bool shards_over_some(const Parallelism& p) {
    return p.shard != 0 && p.shard != ranks_of_weights(p);
}

// The replicas that fill so many ranks; none where ranks would be left over.
inline std::optional<int> replicas_on(const Parallelism& p, long ranks) {
    const long one = ranks_of_replica(p);
    if (ranks % one != 0) return std::nullopt;
    return static_cast<int>(ranks / one);
}

// Whether tensor-parallel ranks hold different tokens outside their blocks, or the same.
inline bool splits_sequence(const Parallelism& p) { return p.tp > 1 && p.sequence_parallel; }
inline bool repeats_sequence(const Parallelism& p) { return p.tp > 1 && !p.sequence_parallel; }

// Whether layers run again before their backward: all, or recompute_layers of a stage.
inline bool recomputes_layers(const Parallelism& p) {
    return p.recompute == Recompute::full || p.recompute == Recompute::alternate;
}

// Whether selective recompute names this module.
inline bool runs_again(const Parallelism& p, RecomputedModule module) {
    if (p.recompute != Recompute::selective) return false;
    if (p.recompute_modules.empty()) return module == RecomputedModule::core_attn;
    return std::ranges::find(p.recompute_modules, module) != p.recompute_modules.end();
}

// "tp 8, pp 4, dp 2, zero 1": the degrees above 1 and the ZeRO stage, or "one rank".
std::string degrees_text(const Parallelism& parallelism);

// Sequences of a step over all ranks. Without a global batch, each replica runs one micro-batch.
inline int sequences_of_step(const Parallelism& p) {
    return p.global_batch > 0 ? p.global_batch : p.dp * p.micro_batch;
}

// Micro-batches of one step on each data-parallel replica.
inline int micro_batches(const Parallelism& p) {
    return p.global_batch == 0 ? 1 : p.global_batch / (p.dp * p.micro_batch);
}

}  // namespace stepcast
