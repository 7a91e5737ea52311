// The tensors of a step (lifetimes.h), put through PyTorch's allocator (allocator.h).
#pragma once

#include "model/experiment.h"
#include "sim/results/allocator_forecast.h"

namespace stepcast {

// Throws ConfigError for what is no transformer, and for runtime.kernels = script.
AllocatorForecast allocator_forecast(const Experiment& experiment);

}  // namespace stepcast
