// The stages of a step while it is written: the units of the model on each stage, and each stage's
// progress.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "model/transformer/data_flow.h"
#include "model/transformer/data_parallel.h"
#include "model/transformer/layer_plans.h"
#include "model/transformer/slot_gathers.h"

namespace stepcast {

// A part of a chunk: a layer, or an end of the model.
struct Unit {
    const PassPlans* plans;
    UnitWeights weights;
    bool recomputed = false;
    int layer = -1;  // index in the model; -1: one of its ends
    // index among the layers whose experts a MoE system writes; -1: not among them
    int system_layer = -1;
    // The weights that zero 3 gathers before the unit runs.
    [[nodiscard]] RankWeights gathered() const { return weights.trained + weights.frozen; }
};

struct StageState {
    int index;
    Stage stage;
    DataParallel data;
    std::vector<std::vector<Unit>> chunks;  // by the stage's chunk index, in forward order
    // by chunk: remaining slots until its gradients are complete
    std::vector<int> backwards_left;
    std::optional<SlotGathers> gathers;  // set under zero 3
    TasksByRank before_last;             // last tasks when the previous unit began
    StageState(TaskGraph& graph, const LayerContext& context, int i, Stage s)
        : index(i), stage(std::move(s)), data(graph, context, stage) {}
};
using Stages = std::vector<std::unique_ptr<StageState>>;

int ranks_of_stage(const Parallelism& parallelism);

// Which of a stage's ranks a step is written on; each of the others does the same as one of these.
enum class StageRanks : std::uint8_t { one, expert_group, all };
int count_of(const Parallelism& parallelism, StageRanks written);

// Numbers the ranks in the graph stage by stage, or if all are written, as in the cluster. The
// stages point into `plans`, which must outlive them.
Stages make_stages(TaskGraph& graph, const LayerContext& context, const LayerPlans& plans,
                   const DataFlow& flow, StageRanks written);

// The group of a rank and the rank with the same other coordinates on another stage, for any rank
// order.
Group between_stages(const LayerContext& context, int a, int b);

// Whether the tensor-parallel ranks, which hold equal activations, each send a part that the
// receivers gather (arXiv 2104.04473, 4.1).
inline bool sends_parts(const Experiment& e) {
    return e.runtime.exchanges.scatter_sends && repeats_sequence(e.parallelism);
}
// What one rank sends of so many bytes that all of them hold.
inline Bytes sent_by_rank(const Experiment& e, Bytes all) {
    return all / (sends_parts(e) ? real(e.parallelism.tp) : 1.0);
}

// What stages do together after the last backward: sum gradients of weights with copies on two
// stages, and take the norm over all.

}  // namespace stepcast
