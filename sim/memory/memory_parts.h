// The memory of a stage from its parts: what units and chunks hold, what the stage's weights take,
// and the fullest moment of its schedule. transformer_memory() and the closed forms use it; the
// closed forms compute each part once.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "model/base/numbers.h"
#include "model/transformer/chunks.h"
#include "model/transformer/layer_memory.h"
#include "sim/memory/weight_tensors.h"
#include "sim/results/forecast.h"

namespace stepcast {

// Tensors that are on their way to the host before a forward waits for the first of them (trl 1.16,
// models/activation_offloading.py, and torchtune 0.6.1, training/_activation_offloading.py:
// max_fwd_stash_size).
inline constexpr int tensors_leaving = 5;

// layers without and with experts, the two ends, and such layers with a gated delta net in place
// of attention, which the closed forms do not cover
enum class UnitKind : std::uint8_t { dense, experts, embedding, head, delta_dense, delta_experts };
inline constexpr int unit_kinds = 6;
inline constexpr std::array layer_kinds{UnitKind::dense, UnitKind::experts};
inline constexpr std::array all_kinds{UnitKind::dense, UnitKind::experts, UnitKind::embedding,
                                      UnitKind::head};
constexpr std::size_t at(UnitKind kind) { return as_index(kind); }
constexpr bool is_layer(std::size_t kind) {
    return kind != at(UnitKind::embedding) && kind != at(UnitKind::head);
}
UnitKind kind_of_layer(const Workload& workload, int layer);
using UnitCounts = std::array<int, unit_kinds>;  // indexed by UnitKind

// What each kind of unit holds on a rank.
struct UnitMemory {
    std::array<LayerMemory, unit_kinds> layers;  // of the kinds that are layers
    Activations embedding, head;
    std::array<UnitWeights, unit_kinds> weights;
    // Of gradients that pass when the backward has ended, unless zero shards them before.
    std::array<Bytes, unit_kinds> passing{};
    // Elements over the distinct shapes of weight matrices.
    struct Matrices {
        double sum = 0, largest = 0;
    };
    // index: the sum of 2^kind over the kinds of layers that there are
    std::array<Matrices, 1 << unit_kinds> matrices;
};
UnitMemory unit_memory(const LayerContext& context);

// How many units of each kind the chunks hold, without layers that a cut between modules goes
// through.
UnitCounts units_of(const Workload& workload, std::span<const Chunk> chunks);

inline void consider(Activations& fullest, const Activations& moment) {
    if (moment.sum() > fullest.sum()) fullest = moment;
}

// Memory while a slot of a chunk runs, on top of what other slots keep. `kept` stays after the
// forward, `put_off` stays between the halves of a split backward. `whole` and `half` are the
// fullest moments of a whole backward and of either half.
struct ChunkMemory {
    Bytes kept, put_off;
    Activations whole, half;
};
ChunkMemory chunk_memory(const UnitMemory& units, const Experiment& experiment, const Chunk& chunk);

// Weights of a stage, in elements.
struct StageWeights : HeldWeights {
    double largest_unit = 0;      // most elements of one unit whose gradients are exchanged
    double largest_gathered = 0;  // most elements of one unit that ZeRO 3 gathers
    UnitMemory::Matrices matrices;
};

// Of a weight in the buckets of PyTorch's DistributedDataParallel, beside its gradient; 0 = there
// are none. Its loops free gradients after an update (gradient_as_bucket_view = False by default).
// Of eager passes with wide gradients the buckets have the weights' type: nanotron's ranks with
// replicas hold 2 bytes a parameter more than ranks without (peaks of 8.9 GB and 1.3 GB models,
// tensor parallel over 8 and 16). DeepSpeed packs gradients by itself (runtime.gradients.copies).
Bytes reducer_element(const LayerContext& context);

// Elements that this rank shares with other ranks, or with its host. What it holds alone is neither
// gathered nor exchanged.
double in_common(const LayerContext& context, const RankWeights& weights);

// Whether zero 2 or 3 exchanges gradients, or brings weights, in each pass.
bool brings_each_pass(const LayerContext& context);

// Adds `count` units of one kind to the stage.
void add_units(StageWeights& stage, const LayerContext& context, int count,
               const UnitWeights& unit);
StageWeights weights_of(const LayerContext& context, const UnitMemory& units,
                        const UnitCounts& counts);

// Without doubt: with_doubt() adds it. `process`: process_memory().
MemoryUse memory_of(const LayerContext& context, const StageWeights& weights,
                    const Activations& moment, Bytes process);

}  // namespace stepcast
