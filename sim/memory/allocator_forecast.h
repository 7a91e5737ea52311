// The tensors of a step (lifetimes.h), put through PyTorch's allocator (allocator.h).
#pragma once

#include <vector>

#include "model/experiment.h"
#include "model/routing.h"
#include "sim/results/allocator_forecast.h"
#include "sim/results/forecast.h"

namespace stepcast {

// Whether the requests of its step are known: transformers that are cut by layers.
bool is_replayed(const Experiment& experiment);

// The memory of the fullest draw by the replay, and whether the device can give it; where nothing
// is replayed, by the closed forms.
MemoryUse memory_forecast(const Experiment& experiment);

// What the tensors of a rank of one stage take while a slot runs, at most, and after it has ended.
struct SlotMemory {
    Bytes during, after;
};

// Of each slot of the second step in schedule order, then of its update; nothing of steps too long
// for that.
std::vector<SlotMemory> memory_of_slots(const Experiment& experiment, const Routing& routing,
                                        int stage);

// Throws ConfigError for what is not replayed.
AllocatorForecast allocator_forecast(const Experiment& experiment);

}  // namespace stepcast
