// Memory of a rank that trains a contrastive captioner under ZeRO stage 1.
#pragma once

#include "model/answers/forecast.h"
#include "model/experiment.h"

namespace stepcast {

// At its fullest moment; `peak` is what tensors take, cluster.overheads come on top and count for `fits`.
MemoryUse coca_memory(const Experiment& experiment);

// What a rank holds between steps: 16-bit weights and its fp32 piece of them; with optimizer states, also its moments.
struct StateMemory {
    Bytes before_optimizer, with_optimizer;
    friend bool operator==(const StateMemory&, const StateMemory&) = default;
};
StateMemory coca_states(const Experiment& experiment);

}  // namespace stepcast
