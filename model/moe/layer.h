// What the builders of one MoE layer share: its shape, and the few tasks that every system has.
#pragma once

#include <vector>

#include "model/experiment.h"
#include "model/moe/known_systems.h"
#include "model/moe/perceptron.h"
#include "model/moe/program.h"
#include "model/routing.h"

namespace stepcast {

// One MoE layer on `ranks` ranks: `tokens` per rank and micro-batch, top_k slots a token, `experts` over all ranks.
struct MoeLayer {
    int ranks = 0, experts = 0, tokens = 0, top_k = 0;
    long hidden = 0, ffn = 0;
    Dtype dtype = Dtype::fp16;
    int overlap_chunks = 1;
    Dtype weight_dtype = dtype;     // of the weights that are kept: fp32 under automatic casting
    bool behind_attention = false;  // in a whole model
    bool unfused = false;           // alltoall: each operation by itself
    [[nodiscard]] Perceptron expert() const { return {hidden, ffn, dtype}; }
    [[nodiscard]] int experts_per_rank() const { return experts / ranks; }
    [[nodiscard]] int owner(int expert) const { return expert / experts_per_rank(); }
    [[nodiscard]] Bytes row() const { return static_cast<double>(hidden) * size_of(dtype); }   // one slot's vector
    [[nodiscard]] Bytes ffn_row() const { return static_cast<double>(ffn) * size_of(dtype); }  // its inner vector
    [[nodiscard]] Bytes slots_bytes() const { return static_cast<double>(tokens) * top_k * row(); }  // one rank's slots
    // Both matrices of an expert as they are kept.
    [[nodiscard]] Bytes expert_weights() const {
        return 2.0 * static_cast<double>(ffn) * static_cast<double>(hidden) * size_of(weight_dtype);
    }
};

// Of a step that is such layers alone, or of a whole model's.
MoeLayer moe_layer_of(const Experiment& experiment);

// faster_moe's choice, true per shadowed expert (exposed for its test and for --explain).
std::vector<bool> shadowed_experts(const MoeLayer& layer, const Routing& routing);
// mix_moe's: those that every rank computes for its own tokens.
std::vector<bool> popular_experts(const Routing& routing);
// Slots of counts that each rank computes: of experts that live there, and its own of those that every rank computes.
std::vector<double> computed_slots(MoeSystem system, long hidden, const Routing& routing);

// Gate GEMM and top-k over one rank's tokens, on every rank.
void add_gate_forward(Program& program, const MoeLayer& layer);
void add_gate_backward(Program& program, const MoeLayer& layer);
// Reads and writes all slots of a rank once: permute, un-permute, and their backward.
void add_slot_pass(Program& program, const MoeLayer& layer, std::string_view name, Phase phase);
// alltoall_unfused.cpp; slots beyond an expert's capacity are dropped, so routing is no matter.
void add_unfused_alltoall(Program& program, const MoeLayer& layer, Phase phase);
// Throws ConfigError when the routing holds block totals only, naming the system.
void need_counts(const Routing& routing, std::string_view system);

// What every rank sends to every other: `bytes(source, target)`.
AllToAll all_to_all(int ranks, const auto& bytes) {
    AllToAll op;
    for (int source = 0; source < ranks; ++source)
        for (int target = 0; target < ranks; ++target) op.bytes.push_back(bytes(source, target));
    return op;
}

enum class Direction { dispatch, combine };

// E groups, one after another: group i moves the slots of local expert i of every rank (dispatch: source to owner;
// combine: back), skipping experts marked in `skip`. A group that moves nothing is not issued; each issued one costs
// the host of every rank one all-to-all set-up.
void add_all_to_all_groups(Program& program, const MoeLayer& layer, const Routing& routing, Phase phase,
                         Direction direction, const std::vector<bool>& skip);

// Slots of a rank for the experts that live on another.
inline long slots_between(const Routing& routing, int source, int owner) {
    long slots = 0;
    for (int l = 0; l < routing.experts_per_rank(); ++l) slots += routing.count(source, owner * routing.experts_per_rank() + l);
    return slots;
}

// Slots of every expert over all source ranks; experts by falling load.
std::vector<int> world_load(const Routing& routing);
std::vector<std::size_t> by_load(const std::vector<int>& load);

}  // namespace stepcast
