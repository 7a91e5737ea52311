// Shared by the builders of a MoE layer: its shape, and the tasks that every system has.
#pragma once

#include <vector>

#include "model/base/numbers.h"
#include "model/experiment.h"
#include "model/recorded/moe/known_systems.h"
#include "model/recorded/moe/perceptron.h"
#include "model/recorded/moe/program.h"
#include "model/routing.h"

namespace stepcast {

// One MoE layer on `ranks` ranks: `tokens` per rank and micro-batch, top_k slots per token,
// `experts` over all ranks.
struct MoeLayer {
    int ranks = 0, experts = 0, tokens = 0, top_k = 0;
    long hidden = 0, ffn = 0;
    Dtype dtype = Dtype::fp16;
    int overlap_chunks = 1;
    Dtype weight_dtype = dtype;     // type of the stored weights: fp32 under automatic casting
    bool behind_attention = false;  // in a whole model
    bool unfused = false;           // alltoall: one kernel per operation
    [[nodiscard]] Perceptron expert() const { return {hidden, ffn, dtype}; }
    [[nodiscard]] int experts_per_rank() const { return experts / ranks; }
    [[nodiscard]] int owner(int expert) const { return expert / experts_per_rank(); }
    // one slot's vector
    [[nodiscard]] Bytes row() const { return real(hidden) * size_of(dtype); }
    // its inner vector
    [[nodiscard]] Bytes ffn_row() const { return real(ffn) * size_of(dtype); }
    // one rank's slots
    [[nodiscard]] Bytes slots_bytes() const { return real(tokens) * top_k * row(); }
    // Bytes of both stored matrices of an expert.
    [[nodiscard]] Bytes expert_weights() const {
        return 2.0 * real(ffn) * real(hidden) * size_of(weight_dtype);
    }
};

// The layer of a step that has only such layers, or of a whole model's step.
MoeLayer moe_layer_of(const Experiment& experiment);

// Slots that each rank computes: those of its own experts, and its own tokens' slots of the experts
// that every rank computes.
std::vector<double> computed_slots(MoeSystem system, long hidden, const Routing& routing);

// Gate GEMM and top-k over a rank's tokens, on every rank.
void add_gate_forward(Program& program, const MoeLayer& layer);
void add_gate_backward(Program& program, const MoeLayer& layer);

// A pass that reads and writes all slots of a rank once: permute, un-permute, and their backward.
void add_slot_pass(Program& program, const MoeLayer& layer, std::string_view name, Phase phase);

// Throws ConfigError with the system's name if the routing holds only block totals.
void need_counts(const Routing& routing, std::string_view system);

// An all-to-all in which every rank sends `bytes(source, target)` to every other.
AllToAll all_to_all(int ranks, const auto& bytes) {
    AllToAll op;
    for (int source = 0; source < ranks; ++source)
        for (int target = 0; target < ranks; ++target) op.bytes.push_back(bytes(source, target));
    return op;
}

enum class Direction { dispatch, combine };

struct SlotExchange {
    Phase phase;
    Direction direction;
};

// One group of sends and receives per local expert index i, in sequence: it moves the slots of
// every rank's i-th expert (dispatch: source to owner; combine: back), except experts marked in
// `skip`. A group without data is not issued. Each issued group costs the host of every rank one
// all-to-all set-up.
void add_all_to_all_groups(Program& program, const MoeLayer& layer, const Routing& routing,
                           const SlotExchange& exchange, const std::vector<bool>& skip);

inline long slots_between(const Routing& routing, int source, int owner) {
    long slots = 0;
    for (int l = 0; l < routing.experts_per_rank(); ++l)
        slots += routing.count(source, owner * routing.experts_per_rank() + l);
    return slots;
}

// world_load: slots of every expert over all source ranks. by_load: experts in order of falling
// load.
std::vector<int> world_load(const Routing& routing);
std::vector<std::size_t> by_load(const std::vector<int>& load);

}  // namespace stepcast
