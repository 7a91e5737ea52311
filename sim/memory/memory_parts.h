// The memory of a stage from its parts: what units and chunks hold, what a stage's weights take, and the fullest moment of
// its order. For transformer_memory() and for the closed forms, which price each part once.
#pragma once

#include "model/answers/forecast.h"
#include "model/transformer/chunks.h"
#include "model/transformer/weights.h"
#include "sim/memory/layer_memory.h"

namespace stepcast {

// Of every kind of unit: a layer with and one without experts, and the ends.
struct UnitMemory {
    LayerMemory dense, experts;
    BlockMemory embedding, head;
    friend bool operator==(const UnitMemory&, const UnitMemory&) = default;
};
UnitMemory unit_memory(const LayerContext& context);

// Activations that wait, and the work of the slot that runs.
struct Moment {
    Bytes activations, work;
};

// What happens to memory while a slot of a chunk runs, above what other slots left: `kept` stays after the forward, and of
// a backward in two halves `put_off` after its first; the fullest moment of a whole backward and of either half.
struct ChunkMemory {
    Bytes kept, put_off;
    Moment whole, half;
};
// `layers_before`: of the stage, in chunks before this one: full recompute may cover only the first.
ChunkMemory chunk_memory(const UnitMemory& units, const Experiment& experiment, const Chunk& chunk, int layers_before);

// Weights of a stage, in elements.
struct StageWeights {
    RankWeights all, layers;
    RankWeights frozen;                       // in addition, without gradients
    double largest_unit = 0;                  // elements of a unit whose gradients ranks exchange, at most
    double largest_gathered = 0;              // and that zero 3 gathers
    double matrices = 0, largest_matrix = 0;  // of the distinct shapes, together; the largest
};

// That the stage holds such a unit.
void note_unit(StageWeights& stage, const LayerContext& context, const RankWeights& unit, const RankWeights& frozen);

MemoryUse memory_of(const LayerContext& context, const StageWeights& weights, const Moment& moment);

}  // namespace stepcast
