// alltoall: the usual expert-parallel layer. Permute, one all-to-all-v, grouped GEMMs, all-to-all-v
// back, weighted sum. The backward mirrors this with data and weight gradients. overlap_chunks = c
// cuts every all-to-all and the experts into c chunks: chunk i computes on the compute lane while
// chunk i + 1 is exchanged on the collective lane.

#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/recorded/moe/alltoall_unfused.h"
#include "model/recorded/moe/layer.h"

namespace stepcast {
namespace {

// The share of the routing's slots in chunk c; over all chunks the shares add up to the whole.
Routing chunk_of(const MoeLayer& layer, Routing routing, int c) {
    const auto until = [&](long slots, long chunks) {
        return slots * chunks / layer.overlap_chunks;
    };
    for (int& slots : routing.counts) slots = as_int(until(slots, c + 1) - until(slots, c));
    return routing;
}

Bytes moved(const MoeLayer& layer, const Routing& routing, int source, int owner) {
    return real(slots_between(routing, source, owner)) * layer.row();
}

// Adds all-to-all, experts and all-to-all back of every chunk. Each chunk follows the tasks before
// the layer, not the previous chunk.
void add_chunks(Program& program, const MoeLayer& layer, const Routing& routing, Phase phase) {
    std::vector<Program> programs(as_index(layer.overlap_chunks), program);
    std::vector<Routing> chunks;
    for (Program& of_chunk : programs) {
        const Routing& part = chunks.emplace_back(chunk_of(layer, routing, as_int(chunks.size())));
        of_chunk.on_all("dispatch", phase, all_to_all(layer.ranks, [&](int source, int owner) {
                            return moved(layer, part, source, owner);
                        }));
    }
    for (const std::size_t c : indices_of(chunks)) {
        const std::vector<int> load = world_load(chunks[c]);
        for (int r = 0; r < layer.ranks; ++r) {
            const auto first = load.begin() + r * layer.experts_per_rank();
            for (const NamedOp& kernel :
                 perceptron_kernels(layer.expert(), phase,
                                    {first, first + layer.experts_per_rank()}, "expert_", true))
                programs[c].on_rank(r, kernel.name, phase, kernel.op);
        }
        const Op back = all_to_all(layer.ranks, [&](int owner, int source) {
            return moved(layer, chunks[c], source, owner);
        });
        program.follow_all(programs[c].on_all("combine", phase, back));
    }
}

}  // namespace

void add_alltoall(Program& program, const MoeLayer& layer, const Routing& routing, Phase phase) {
    if (layer.unfused) return add_unfused_alltoall(program, layer, phase);
    need_counts(routing, "alltoall");
    const bool forward = phase == Phase::forward;
    if (forward) add_gate_forward(program, layer);
    add_slot_pass(program, layer, forward ? "permute" : "weighted_sum_backward", phase);
    add_chunks(program, layer, routing, phase);
    add_slot_pass(program, layer, forward ? "weighted_sum" : "permute_backward", phase);
    if (!forward) add_gate_backward(program, layer);
}

}  // namespace stepcast
