// Lines that are no result: notes, warnings, what was written.
#pragma once

#include <functional>
#include <string>

namespace stepcast {

using Say = std::function<void(const std::string& line)>;

// To stderr, behind the program's name. What files and the command line say moves no cursor of a terminal.
void say_on_stderr(const std::string& line);

}  // namespace stepcast
