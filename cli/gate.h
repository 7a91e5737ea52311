// compare RUN --gate --history DIR: is the run slower than its history?
#pragma once

#include "cli/options.h"

namespace stepcast {

// Prints the verdict and writes the file of --junit. Returns the exit code: 0 pass, 4 fail, 5
// cannot tell.
int run_gate(const Options& options);

}  // namespace stepcast
