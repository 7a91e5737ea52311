// The memory of a stage from its parts: what units and chunks hold, what a stage's weights take, and the fullest moment of
// its order. For transformer_memory() and for the closed forms, which price each part once.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "model/answers/forecast.h"
#include "model/transformer/chunks.h"
#include "model/transformer/weights.h"
#include "sim/memory/layer_memory.h"

namespace stepcast {

enum class UnitKind : std::uint8_t { dense, experts, embedding, head };  // a layer without and one with experts, and the ends
inline constexpr int unit_kinds = 4;
inline constexpr std::array layer_kinds{UnitKind::dense, UnitKind::experts};
inline constexpr std::array all_kinds{UnitKind::dense, UnitKind::experts, UnitKind::embedding, UnitKind::head};
constexpr std::size_t at(UnitKind kind) { return static_cast<std::size_t>(kind); }
using UnitCounts = std::array<int, unit_kinds>;  // by kind

// Of every kind of unit of the model what it holds on a rank.
struct UnitMemory {
    std::array<LayerMemory, 2> layers;
    BlockMemory embedding, head;
    std::array<UnitWeights, unit_kinds> weights;
    // Of the distinct shapes of matrices.
    struct Matrices {
        double sum = 0, largest = 0;
    };
    std::array<Matrices, 4> matrices;  // [dense layers there + 2 * layers with experts there]
};
UnitMemory unit_memory(const LayerContext& context);

// [stage][index]; of two directions the first before the second.
std::vector<std::vector<Chunk>> chunks_by_stage(const Workload& workload, const Parallelism& parallelism);
// Of chunks; layers that a cut opens are none of them.
UnitCounts units_of(const Workload& workload, std::span<const Chunk> chunks);

// Activations that wait, and the work of the slot that runs.
struct Moment {
    Bytes activations, work;
};
inline void consider(Moment& fullest, const Moment& moment) {
    if (moment.activations + moment.work > fullest.activations + fullest.work) fullest = moment;
}

// What happens to memory while a slot of a chunk runs, above what other slots left: `kept` stays after the forward, and of
// a backward in two halves `put_off` after its first; the fullest moment of a whole backward and of either half.
struct ChunkMemory {
    Bytes kept, put_off;
    Moment whole, half;
};
ChunkMemory chunk_memory(const UnitMemory& units, const Experiment& experiment, const Chunk& chunk);

// Weights of a stage, in elements.
struct StageWeights {
    RankWeights all, layers;
    RankWeights frozen;           // in addition, without gradients
    double largest_unit = 0;      // elements of a unit whose gradients ranks exchange, at most
    double largest_gathered = 0;  // and that zero 3 gathers
    UnitMemory::Matrices matrices;
};

// That the stage holds so many of a unit.
void add_units(StageWeights& stage, const LayerContext& context, int count, const UnitWeights& unit);
StageWeights weights_of(const LayerContext& context, const UnitMemory& units, const UnitCounts& counts);

// Elements that are left of a state that is sharded from ZeRO stage `from` on.
double shared_out(const LayerContext& context, const RankWeights& weights, int from);

MemoryUse memory_of(const LayerContext& context, const StageWeights& weights, const Moment& moment);

}  // namespace stepcast
