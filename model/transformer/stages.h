// The stages of a step while it is written: the units of the model that each holds, and how far each has come.
#pragma once

#include <memory>

#include "model/transformer/chunks.h"
#include "model/transformer/data_parallel.h"
#include "model/transformer/layer_plans.h"

namespace stepcast {

// A unit of a chunk: an end of the model or a layer.
struct Unit {
    const PassPlans* plans;
    UnitWeights weights;
    bool recomputed = false;
    int layer = -1;         // of the model; -1: one of its ends
    int system_layer = -1;  // index among the layers whose experts a MoE system writes; -1: not one of them
    // What zero 3 gathers before the unit runs.
    [[nodiscard]] RankWeights gathered() const { return weights.trained + weights.frozen; }
};

struct StageState {
    int index;
    Stage stage;
    DataParallel data;
    std::vector<std::vector<Unit>> chunks;  // by the stage's chunk index, in forward order
    std::vector<int> backwards_left;        // by chunk: slots until its gradients are complete
    TasksByRank before_last;                // what was last when the unit before began
    std::size_t next = 0;                   // slot of its order
    StageState(TaskGraph& graph, const LayerContext& context, int i, Stage s)
        : index(i), stage(std::move(s)), data(graph, context, stage) {}
};
using Stages = std::vector<std::unique_ptr<StageState>>;
using Path = std::vector<Chunk>;  // the chunks that a micro-batch goes through, in forward order

int ranks_of_stage(const Parallelism& parallelism);

// Folded, one rank stands for each stage. `plans` outlive the stages, which point into them.
Stages make_stages(TaskGraph& graph, const LayerContext& context, const LayerPlans& plans,
                   const std::vector<Path>& paths, bool folded);

// A rank and the one with its other coordinates on another stage, wherever the rank order puts stages.
Group between_stages(const LayerContext& context, int a, int b);

// Experts of the index-th layer that has any, as a MoE system writes them, forward or backward, behind what the stage wrote last.
void add_system_experts(TaskGraph& graph, Stage& stage, const LayerContext& context, int index, Phase phase);

// What stages do together after the last backward: copies of weights on two stages sum their gradients, the norm is taken
// over all.

// dualpipe: the two copies of a layer live on mirrored stages.
void join_copies(TaskGraph& graph, const LayerContext& context, const Stages& stages);

// Tied embeddings live on the first and the last stage; without join_tied each copy goes its own way.
void join_embeddings(TaskGraph& graph, const LayerContext& context, const Stages& stages, const Path& path);

// Gradient norm, over all stages unless clip_per_rank; optimizer.
void update_weights(TaskGraph& graph, const LayerContext& context, const Stages& stages);

}  // namespace stepcast
