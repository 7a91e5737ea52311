// What a step's tasks belong to and what its ranks hold, next to the graph: for pictures of it.
#pragma once

#include <vector>

#include "model/units.h"

namespace stepcast {

// By task id, from 0; -1: of none. Empty where the workload is no transformer.
struct StepLabels {
    std::vector<int> micro_batch, layer;
    friend bool operator==(const StepLabels&, const StepLabels&) = default;
};

// What a rank has allocated from `time` on: one point of its counter track.
struct MemoryPoint {
    int rank = 0;
    Seconds time;
    Bytes in_use;
    friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};

}  // namespace stepcast
