// How the work is split over ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/dtype.h"
#include "model/moe/known_systems.h"
#include "model/pipeline/known_schedules.h"
#include "model/units.h"

namespace stepcast {

// alternate: of every layer the passes and every second matrix product; attention and what tensor parallelism sums are kept
// (torchtitan's selective_ac_option = "op").
enum class Recompute : std::uint8_t { none, selective, full, alternate };
constexpr auto names_of(Recompute) {
    using enum Recompute;
    return name_table<Recompute>("a recompute mode", {{none, "none"}, {selective, "selective"}, {full, "full"},
                                                      {alternate, "alternate"}});
}

// How attention sees the keys of the other context-parallel ranks: passed round a ring during the computation, or
// gathered before it.
enum class ContextExchange : std::uint8_t { ring, all_gather };
constexpr auto names_of(ContextExchange) {
    using enum ContextExchange;
    return name_table<ContextExchange>("a context exchange", {{ring, "ring"}, {all_gather, "all-gather"}});
}

// Where stages are cut: between layers, or (as a tracing splitter does) after equal numbers of modules with a matrix product
// or an activation, counting the embedding, eight a gated layer (q, k, v, o, gate, activation, up, down) and the logits.
enum class StageCut : std::uint8_t { layers, modules };
constexpr auto names_of(StageCut) {
    return name_table<StageCut>("a cut of stages", {{StageCut::layers, "layers"}, {StageCut::modules, "modules"}});
}

// How a rank's experts multiply. grouped: one kernel over all of them, casts and activation passes of their own. each: expert by
// expert, each with kernels of its own (Transformer Engine's GroupedLinear). fused: one kernel with activation and casts in it
// (its grouped MLP in MXFP8 and NVFP4, from 2.20 on), tokens sorted by expert while they are sent.
enum class ExpertProducts : std::uint8_t { grouped, each, fused };
constexpr auto names_of(ExpertProducts) {
    using enum ExpertProducts;
    return name_table<ExpertProducts>("a kind of expert products", {{grouped, "grouped"}, {each, "each"}, {fused, "fused"}});
}

// dp counts data-parallel replicas; experts are spread over ep ranks out of the dp x cp group (ep divides dp * cp).
// Ranks = dp * tp * pp * cp.
struct Parallelism {
    int dp = 1, tp = 1, pp = 1, vp = 1, ep = 1, cp = 1;
    bool sequence_parallel = false;
    int zero = 0;
    int micro_batch = 1;   // sequences per rank and micro-batch
    int global_batch = 0;  // sequences per step over all ranks; 0 = dp * micro_batch (one micro-batch each)
    Schedule schedule = Schedule::one_f_one_b;
    Recompute recompute = Recompute::none;
    int recompute_layers = 0;            // full: layers of each stage that are computed again; 0 = all
    bool recompute_stops_early = false;  // full: not beyond the last tensor that the backward needs
    StageCut cut = StageCut::layers;
    bool head_apart = false;        // cut by modules: the last stage holds final norm and logits alone
    std::vector<int> stage_layers;  // layers of each stage chunk, first to last; empty = as even as possible
    bool scatter_p2p = true;  // without sequence_parallel: each tensor-parallel rank sends its part, then they gather
    bool overlap_p2p = true;  // sends between stages overlap the next task
    bool gather_copies = false;  // collectives over sequence parts, by themselves: a copy puts the whole in order
    bool overlap_tp = false;  // tensor-parallel collectives overlap the GEMM that they feed or follow, in chunks
    bool overlap_weight_gradient = true;  // in backward they overlap the weight gradient
    ContextExchange context_exchange = ContextExchange::ring;
    std::string rank_order = "tp-cp-dp-pp";  // innermost first; experts are spread inside cp and dp
    int shard = 0;                           // zero 3: ranks that hold one copy between them, 2 or more; 0 = dp x cp
    Dtype gradient_dtype = Dtype::fp32;      // gradients as they are accumulated and reduced
    bool eager = false;                      // element-wise passes run operation by operation: see Planner
    double eager_traffic = 2;        // eager: their traffic over that of fused passes
    bool unfused = false;            // each element-wise operation is counted by itself: model/transformer/operations.h
    bool eager_script = false;       // one rank: each operator is the kernels that eager PyTorch launches: model/eager/
    bool fused_accumulation = true;  // weight-gradient GEMMs add into the accumulated gradients themselves
    bool expert_tensor_parallel = true;  // each expert is split over the tensor-parallel ranks; else ep counts them too
    bool dispatch_once = false;  // a token goes once to each rank and each node that has some of its experts (DeepEP)
    ExpertProducts expert_products = ExpertProducts::grouped;
    // 1f1b, dualpipe: a forward and the backward after it go by turns, layer by layer, so that either's all-to-alls overlap the other's
    // work, with one micro-batch more in flight (Megatron-Core's overlap_moe_expert_parallel_comm).
    bool overlap_experts = false;
    Bytes bucket = Bytes(25e6);
    bool overlap = true;
    bool overlap_params = true;  // zero 1, 2: parameters are gathered during the next forward
    int overlap_chunks = 1;      // alltoall: the all-to-all and the experts are cut into so many overlapping chunks
    MoeSystem moe_system = MoeSystem::alltoall;
    // What a hop between stages sends (model/transformer/hops.h). blocking_p2p: one message after the other, each holding the
    // hosts of both ends; nothing else runs on them meanwhile.
    bool blocking_p2p = false;
    int messages_per_tensor = 1;      // headers and data
    int messages_per_tuple = 0;       // framing of the tensors of one stage
    bool resend_first_stage = false;  // every later hop carries what the first stage sent once more
    int gradient_tensors = 0;         // tensors of a hop back, those without data too; 0 = those of the cut
    bool clip_per_rank = false;       // the gradient norm is each stage's own
    bool join_tied = true;            // stages that share tied embeddings sum their gradients
    friend bool operator==(const Parallelism&, const Parallelism&) = default;
};

// Whether layers run again before their backward, all or recompute_layers of a stage.
inline bool recomputes_layers(const Parallelism& p) {
    return p.recompute == Recompute::full || p.recompute == Recompute::alternate;
}

// Of all ranks together; a global batch that is not stated is one micro-batch of each replica.
inline int sequences_of_step(const Parallelism& p) { return p.global_batch > 0 ? p.global_batch : p.dp * p.micro_batch; }

// Micro-batches of one step on each data-parallel replica.
inline int micro_batches(const Parallelism& p) {
    return p.global_batch == 0 ? 1 : p.global_batch / (p.dp * p.micro_batch);
}

}  // namespace stepcast
