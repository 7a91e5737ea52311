// What is refused before long work starts, not after it. All throw ConfigError.
#pragma once

#include <string>

#include "cli/arguments.h"

namespace stepcast {

// What is asked for must be writable and be none of what is read.
void check_files_of_simulate(const Options& options, const std::vector<Variant>& variants);
void check_files_of_sweep(const Options& options);
void check_files_of_execute(const Options& options);
void check_files_of_calibrate(const Options& options);
void check_files_of_compare(const Options& options);
void check_files_of_import(const Options& options);

void require_device(const std::string& device);

}  // namespace stepcast
