// The tensors of a step (lifetimes.h), put through PyTorch's allocator (allocator.h).
#pragma once

#include "model/experiment.h"
#include "sim/results/allocator_forecast.h"
#include "sim/results/forecast.h"

namespace stepcast {

// Whether the requests of its step are known: transformers that are cut by layers.
bool is_replayed(const Experiment& experiment);

// The memory of the fullest draw by the replay, and whether the device can give it; where nothing
// is replayed, by the closed forms.
MemoryUse memory_forecast(const Experiment& experiment);

// Throws ConfigError for what is not replayed.
AllocatorForecast allocator_forecast(const Experiment& experiment);

}  // namespace stepcast
