// The picture of a rank's memory: over time, at its fullest moment, stage by stage.
#pragma once

#include <string>

#include "sim/results/allocator_forecast.h"

namespace stepcast {

// Memory of the fullest stage over two steps, what lives at its fullest moment, and all stages.
void plot_memory(const AllocatorForecast& memory, const std::string& title,
                 const std::string& path);

}  // namespace stepcast
