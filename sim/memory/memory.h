// Memory of the fullest rank, for each kind of workload. `peak` is what tensors take (frameworks
// print it as allocated). `overheads` (cluster.overheads) come on top and count for `fits`.
#pragma once

#include <vector>

#include "model/experiment.h"
#include "model/runtime_rules.h"
#include "sim/results/forecast.h"

namespace stepcast {

// The peak of a rank of one stage for each slot in schedule order: while the slot runs, and after
// it has ended.
struct SlotMemory {
    Bytes during, after;
};

}  // namespace stepcast
