// The verb calibrate on this machine's processor.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/arguments.h"

namespace stepcast {

// Measures with all ranks at once, fits, writes the cluster file and a plot of the curves and rates with their fits.
// Returns what to print, "" in a process that does not report; throws ConfigError and DeviceError.
std::string calibrate_host(const Options& options, const std::function<void(std::string_view)>& progress);

}  // namespace stepcast
