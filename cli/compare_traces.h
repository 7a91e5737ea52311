// `compare` of profiler's traces: with the forecast of --model, or with what follows from their own kernel tables.
#pragma once

#include "cli/arguments.h"

namespace stepcast {

// Whether the inputs are traces; then they are compared and printed.
bool compare_traces(const Options& options);

}  // namespace stepcast
