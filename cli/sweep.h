// The verb sweep without its printing, for the program and for Python.
#pragma once

#include "cli/options.h"
#include "sim/sweep/sweep.h"

namespace stepcast {

// The question of `sweep`. Throws ConfigError for axes, constraints and objectives that it does not
// understand.
SweepQuestion sweep_question(const Options& options);

// Throws ConfigError for outputs that cannot be written or are inputs.
void check_files_of_sweep(const Options& options);

}  // namespace stepcast
