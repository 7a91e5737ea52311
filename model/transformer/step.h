// One training step of a transformer under every parallelism.
#pragma once

#include <vector>

#include "model/experiment.h"
#include "model/graph/task_graph.h"
#include "model/routing.h"
#include "model/step.h"

namespace stepcast {

// Whether all ranks of a stage do the same: balanced routing, and groups that lie alike on every node.
bool can_fold(const Experiment& experiment, const Routing& routing);

// What a graph says of itself only while it is written: the tasks of each slot, [first, last), in the order of each stage.
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
    std::vector<int> stage_of_rank;  // of the graph
    std::vector<WrittenSlot> slots;   // of two that go by turns each has a part of their common tasks
    std::vector<WrittenSlot> pieces;  // the tasks of each slot; several a slot where two go by turns
    std::vector<WrittenLayer> layers;  // inside them, ascending
};
// Of the graph that build_transformer_step() makes.
WrittenSlots written_slots(const Experiment& experiment, const Routing& routing, Folding folding = Folding::automatic);

// `routing`: of one expert-parallel group; empty = balanced. Folded, the graph has one rank a stage.
TaskGraph build_transformer_step(const Experiment& experiment, const Routing& routing,
                                 Folding folding = Folding::automatic);

}  // namespace stepcast
