// Memory of a transformer's rank: states under each ZeRO stage, activations as the pipeline schedule keeps them, buffers.
#pragma once

#include <vector>

#include "model/answers/forecast.h"
#include "model/experiment.h"

namespace stepcast {

// Of a rank of this pipeline stage at its fullest moment. `peak` is what tensors take (what frameworks print as
// allocated); `overheads` (cluster.overheads) come on top and count for `fits`. `routing`: of one expert-parallel group;
// the fullest rank counts; empty = balanced.
MemoryUse transformer_memory(const Experiment& experiment, int stage, const Routing& routing = {});
// Of the fullest stage.
MemoryUse transformer_memory(const Experiment& experiment, const Routing& routing = {});

// Of a rank of this stage along its order: while each slot runs, and when it has ended.
struct SlotMemory {
    Bytes during, after;
};
std::vector<SlotMemory> memory_of_slots(const Experiment& experiment, int stage, const Routing& routing = {});

}  // namespace stepcast
