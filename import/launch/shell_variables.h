// A shell's variables and expansions, as far as launch scripts use them; nothing is run.
#pragma once

#include <string>

namespace stepcast {

// For NAME=.. or NAME+=..: length of the name; 0 = no assignment.
std::size_t assigned_name(const std::string& raw);

// *, ? and [..] as in the shell
bool fits_pattern(const std::string& text, const std::string& pattern);

}  // namespace stepcast
