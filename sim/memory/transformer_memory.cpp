#include "sim/memory/memory.h"

#include <set>

#include "model/pipeline/schedule.h"
#include "sim/memory/memory_parts.h"

namespace stepcast {
namespace {

// One stage being summed up.
struct StageMemory {
    StageWeights weights;
    std::vector<ChunkMemory> chunks;
    std::set<Matrix> matrices;
    void count(const LayerContext& c, const RankWeights& unit, const RankWeights& frozen = {}) {
        weights.all += unit;
        weights.frozen += frozen;
        note_unit(weights, c, unit, frozen);
    }
};

StageMemory stage_memory(const LayerContext& c, const UnitMemory& units, int stage) {
    const Parallelism& p = c.experiment.parallelism;
    const bool adapted = c.experiment.workload.adapter_rank > 0;
    StageMemory memory;
    memory.chunks.resize(static_cast<std::size_t>(chunks_per_stage(p)));
    int layers = 0;
    for (int direction = 0; direction < directions(p); ++direction)
        for (const Chunk& chunk : chunks_of(c.experiment.workload, p, direction)) {
            if (chunk.stage != stage) continue;
            memory.chunks[static_cast<std::size_t>(chunk.index)] = chunk_memory(units, c.experiment, chunk, layers);
            layers += chunk.last - chunk.first;
            if (chunk.embedding) memory.count(c, embedding_weights(c), frozen_embedding(c));
            if (chunk.head) memory.count(c, head_weights(c), frozen_head(c));
            if (chunk.begins_inside) memory.count(c, rest_weights(c));
            for (int l = chunk.first; l < chunk.last; ++l) {
                const bool opened = chunk.ends_inside && l + 1 == chunk.last;
                memory.count(c, opened ? opened_weights(c, l) : layer_weights(c, l), frozen_layer(c, l));
                // Narrow copies are of what products read: under adapters, which stay in 16 bits, of the frozen matrices.
                memory.weights.layers += adapted ? frozen_layer(c, l) : layer_weights(c, l);
                for (const Matrix& matrix : layer_matrices(c, l)) memory.matrices.insert(matrix);
            }
        }
    for (const Matrix& matrix : memory.matrices) {
        memory.weights.matrices += matrix.elements();
        memory.weights.largest_matrix = std::max(memory.weights.largest_matrix, matrix.elements());
    }
    return memory;
}

// Calls back with the activations that wait and the work of each slot while it runs, and the activations when it has ended.
template <class Call>
void along(const Order& order, const std::vector<ChunkMemory>& chunks, Call&& call) {
    Bytes now;
    for (const Slot& slot : order) {
        const ChunkMemory& chunk = chunks[static_cast<std::size_t>(slot.chunk)];
        if (slot.pass != Pass::forward) now -= slot.pass == Pass::weight_backward ? chunk.put_off : chunk.kept;
        Moment during = slot.pass == Pass::forward ? Moment{chunk.kept, {}} : slot.pass == Pass::backward ? chunk.whole : chunk.half;
        during.activations += now;
        if (slot.pass == Pass::forward) now += chunk.kept;
        if (slot.pass == Pass::input_backward) now += chunk.put_off;
        call(during, now);
    }
}

// The fullest moment of the order: activations that wait, and the work of the slot that runs.
Moment fullest_moment(const Order& order, const std::vector<ChunkMemory>& chunks) {
    Moment fullest;
    along(order, chunks, [&](const Moment& m, Bytes) {
        if (m.activations + m.work > fullest.activations + fullest.work) fullest = m;
    });
    return fullest;
}

MemoryUse memory_of(const LayerContext& c, const UnitMemory& units, int stage, const Order& order) {
    const StageMemory memory = stage_memory(c, units, stage);
    return memory_of(c, memory.weights, fullest_moment(order, memory.chunks));
}

}  // namespace

MemoryUse transformer_memory(const Experiment& e, int stage, const Routing& routing) {
    const LayerContext context{e, rank_shape(e), rank_groups(e.parallelism), routing};
    return memory_of(context, unit_memory(context), stage, schedule_orders(e.parallelism)[static_cast<std::size_t>(stage)]);
}

std::vector<SlotMemory> memory_of_slots(const Experiment& e, int stage, const Routing& routing) {
    const LayerContext context{e, rank_shape(e), rank_groups(e.parallelism), routing};
    const StageMemory memory = stage_memory(context, unit_memory(context), stage);
    std::vector<SlotMemory> slots;
    along(schedule_orders(e.parallelism)[static_cast<std::size_t>(stage)], memory.chunks, [&](const Moment& m, Bytes after) {
        slots.push_back({memory_of(context, memory.weights, m).peak,
                         memory_of(context, memory.weights, {after, {}}).peak});
    });
    return slots;
}

MemoryUse transformer_memory(const Experiment& e, const Routing& routing) {
    const LayerContext context{e, rank_shape(e), rank_groups(e.parallelism), routing};
    const UnitMemory units = unit_memory(context);
    const std::vector<Order> orders = schedule_orders(e.parallelism);
    MemoryUse fullest;
    for (int stage = 0; stage < e.parallelism.pp; ++stage) {
        const MemoryUse use = memory_of(context, units, stage, orders[static_cast<std::size_t>(stage)]);
        if (stage == 0 || use.peak > fullest.peak) fullest = use;
    }
    return fullest;
}

}  // namespace stepcast
