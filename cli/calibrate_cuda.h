// `calibrate --device cuda`: the sweeps, their tables, the fit and its plots, one after another.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/arguments.h"

namespace stepcast {

// Returns what to print; "" in a process that does not hold rank 0. Writes --out and, beside it, tables and plots.
std::string calibrate_cuda(const Options& options, const std::function<void(std::string_view)>& progress);

}  // namespace stepcast
