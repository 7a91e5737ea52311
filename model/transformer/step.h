// One training step of a transformer, with every kind of parallelism.
#pragma once

#include <vector>

#include "model/experiment.h"
#include "model/graph/task_graph.h"
#include "model/routing.h"
#include "model/step.h"

namespace stepcast {

// True if all ranks of a stage do the same: routing is balanced, and groups have the same placement
// on every node.
bool can_fold(const Experiment& experiment, const Routing& routing);

// What is known about a graph only while it is written: the tasks [first, last) of each slot, in
// the order of each stage.
struct WrittenSlot {
    int stage = 0;
    Slot slot;
    TaskId first = 0, last = 0;
};
struct WrittenLayer {
    TaskId first = 0, last = 0;
    int layer = 0;
};
struct WrittenSlots {
    std::vector<int> stage_of_rank;  // by rank of the graph
    // one per slot; two alternating slots share their tasks, half each
    std::vector<WrittenSlot> slots;
    // the exact tasks of each slot: several pieces if two slots alternate
    std::vector<WrittenSlot> pieces;
    std::vector<WrittenLayer> layers;  // layers inside the pieces, ascending
};
// For the graph that build_transformer_step() makes.
WrittenSlots written_slots(const Experiment& experiment, const Routing& routing,
                           Folding folding = Folding::automatic);

// `routing` is that of one expert-parallel group; empty = balanced. A folded graph has one rank per
// stage.
TaskGraph build_transformer_step(const Experiment& experiment, const Routing& routing,
                                 Folding folding = Folding::automatic);

}  // namespace stepcast
