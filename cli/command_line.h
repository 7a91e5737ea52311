// From the words of a command line to the run of a verb.
#pragma once

#include <vector>

#include "cli/argument.h"

namespace stepcast {

// Runs the verb of the command line, or prints what --help, --version, help and generate ask for.
// Returns the exit code. Throws ConfigError for a command line that it does not understand, and
// what the verb throws.
int run_command_line(int argc, char** argv, const std::vector<Verb>& verbs);

}  // namespace stepcast
