// The verb calibrate: this machine measured, or recorded measurements fitted.
#pragma once

#include <string>

#include "cli/arguments.h"
#include "model/progress.h"

namespace stepcast {

// Writes what is asked for; returns what to print, "" in a process that does not report. Throws ConfigError, DeviceError.
std::string calibrate(const Options& options, const Progress& progress);

// The same with --device cuda: the sweeps, their tables next to --out, the fit and its plots, one after another; and with
// --device host, all ranks at once, with a plot of the curves and rates and their fits.
std::string calibrate_cuda(const Options& options, const Progress& progress);
std::string calibrate_host(const Options& options, const Progress& progress);

}  // namespace stepcast
