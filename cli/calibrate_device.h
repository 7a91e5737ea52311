// The verb calibrate on this machine, for its processor or its GPUs.
#pragma once

#include <string>

#include "cli/options.h"
#include "model/base/progress.h"

namespace stepcast {

// With --device cuda: runs the sweeps, and writes their tables next to --out, the fit and its
// plots. With --device host: the same on all ranks at once, with a plot of the curves and rates and
// their fits.
std::string calibrate_cuda(const Options& options, const Progress& progress);
std::string calibrate_host(const Options& options, const Progress& progress);

}  // namespace stepcast
