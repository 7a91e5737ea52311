// Walks a launch script's commands, with its loops, functions and conditions, to the line that
// starts the training.
#pragma once

#include <map>

#include "import/launch/shell_launch.h"

namespace stepcast {

// `given` holds environment variables. Throws ConfigError if nothing is launched.
ShellLaunch read_launch(const std::string& text, const std::string& path,
                        const std::map<std::string, std::string>& given);

}  // namespace stepcast
