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

// What `import` was given, by which of its options it reads.
enum class ImportKind : unsigned { machine = 1, configuration = 2, log = 4, profile = 8 };
void check_options_of_import(const Options& options, ImportKind kind);

void require_device(const std::string& device);

}  // namespace stepcast
