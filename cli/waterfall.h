// compare A B --waterfall: what each difference between the two inputs costs.
#pragma once

#include "cli/options.h"

namespace stepcast {

// Prints it as text or JSON, and writes the page of --out. Returns the exit code.
int run_waterfall(const Options& options);

}  // namespace stepcast
