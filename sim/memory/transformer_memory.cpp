#include "sim/memory/transformer_memory.h"

#include <algorithm>

#include "model/base/numbers.h"
#include "model/runtime_rules.h"
#include "model/transformer/schedule.h"
#include "sim/memory/memory_parts.h"
#include "sim/memory/memory_use.h"
#include "sim/memory/process_memory.h"

namespace stepcast {
namespace {

struct StageMemory {
    StageWeights weights;
    std::vector<ChunkMemory> chunks;
};

StageMemory stage_memory(const LayerContext& c, const UnitMemory& units,
                         const std::vector<Chunk>& chunks) {
    const Experiment& e = c.experiment;
    StageMemory memory{weights_of(c, units, units_of(e.workload, chunks)), {}};
    for (const Chunk& chunk : chunks) {
        memory.chunks.push_back(chunk_memory(units, e, chunk));
        if (chunk.begins_inside) add_units(memory.weights, c, 1, {rest_weights(c), {}});
        if (!chunk.ends_inside) continue;
        // layers that a cut goes through are dense
        add_units(memory.weights, c, 1, {opened_weights(c, chunk.last - 1), {}});
        memory.weights.layers += units.weights[0].trained;
        memory.weights.matrices = units.matrices[1];
    }
    return memory;
}

// The kept activations and the work of the slot in which both are most.
Activations fullest_moment(const Order& order, const std::vector<ChunkMemory>& chunks) {
    Activations fullest;
    Bytes now;
    for (const Slot& slot : order) {
        const ChunkMemory& chunk = chunks[as_index(slot.chunk)];
        if (slot.pass != Pass::forward)
            now -= slot.pass == Pass::weight_backward ? chunk.put_off : chunk.kept;
        Activations during = slot.pass == Pass::forward    ? Activations{chunk.kept, {}}
                             : slot.pass == Pass::backward ? chunk.whole
                                                           : chunk.half;
        during.kept += now;
        consider(fullest, during);
        if (slot.pass == Pass::forward) now += chunk.kept;
        if (slot.pass == Pass::input_backward) now += chunk.put_off;
    }
    return fullest;
}

}  // namespace

Experiment as_eager(Experiment e) {
    if (!runs_script(e)) return e;
    e.runtime.kernels = KernelStyle::eager;
    e.runtime.composed = {Composed::loss};
    e.runtime.loss.fused = false;
    e.runtime.gradients.type = GradientType::training;
    e.runtime.gradients.freed = true;
    e.runtime.gradients.fused_accumulation = false;
    e.runtime.optimizer.master_weights = false;
    e.runtime.optimizer.fused = true;
    e.workload.fp32_loss = true;
    return e;
}

std::vector<MemoryUse> memory_of_stages(const Experiment& experiment, const Routing& routing) {
    const Experiment e = as_eager(experiment);
    const LayerContext context{e, rank_shape(e), rank_groups(e), routing};
    const UnitMemory units = unit_memory(context);
    const std::vector<Order> orders = schedule_orders(e.parallelism);
    const Bytes process = process_memory(e, context.groups);
    std::vector<MemoryUse> stages;
    for (const std::vector<Chunk>& chunks :
         chunks_by_stage(paths_of(e.workload, e.parallelism), e.parallelism.pp)) {
        const StageMemory memory = stage_memory(context, units, chunks);
        const Activations fullest = fullest_moment(orders[stages.size()], memory.chunks);
        stages.push_back(
            with_doubt(memory_of(context, memory.weights, fullest, process), e, process));
    }
    return stages;
}

MemoryUse transformer_memory(const Experiment& e, const Routing& routing) {
    return std::ranges::max(memory_of_stages(e, routing), {}, &MemoryUse::peak);
}

}  // namespace stepcast
