// The verb calibrate: this machine measured, or recorded measurements fitted.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/arguments.h"

namespace stepcast {

// The verb calibrate: this machine measured, or recorded measurements fitted.

// Writes what is asked for; returns what to print, "" in a process that does not report. Throws ConfigError, DeviceError.
std::string calibrate(const Options& options, const std::function<void(std::string_view)>& progress);

// `calibrate --device cuda`: the sweeps, their tables, the fit and its plots, one after another.

// Returns what to print; "" in a process that does not hold rank 0. Writes --out and, next to it, tables and plots.
std::string calibrate_cuda(const Options& options, const std::function<void(std::string_view)>& progress);

// The verb calibrate on this machine's processor.

// Measures with all ranks at once, fits, writes the cluster file and a plot of the curves and rates with their fits.
// Returns what to print, "" in a process that does not report; throws ConfigError and DeviceError.
std::string calibrate_host(const Options& options, const std::function<void(std::string_view)>& progress);

}  // namespace stepcast
