// The verb calibrate: this machine measured, or recorded measurements fitted.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/arguments.h"

namespace stepcast {

// Writes what is asked for; returns what to print, "" in a process that does not report. Throws ConfigError, DeviceError.
std::string calibrate(const Options& options, const std::function<void(std::string_view)>& progress);

}  // namespace stepcast
