// The verb calibrate without its printing, for the program and for Python.
#pragma once

#include <string>

#include "cli/options.h"
#include "model/base/progress.h"

namespace stepcast {

// Measures this machine, or fits recorded measurements. Writes the files of --out and returns the
// text to print, "" in a process that does not report. Throws ConfigError, DeviceError.
std::string calibrate(const Options& options, const Progress& progress);

// Throws ConfigError for a name that is no device.
void require_device(const std::string& device);

}  // namespace stepcast
