// Memory as PyTorch's allocator sees it, for a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/table.h"
#include "sim/results/allocator_forecast.h"

namespace stepcast {

// "kernels' temporaries": the kind in words, for tables and pictures.
std::string_view words_of(TensorKind kind);

// Peaks, the tensor that fails and what would help, the fullest moment by kind, layer and stage.
std::string allocator_table(const AllocatorForecast& forecast);
std::string allocator_words(const AllocatorForecast& forecast);
std::vector<Table> allocator_tables(const AllocatorForecast& forecast);

}  // namespace stepcast
