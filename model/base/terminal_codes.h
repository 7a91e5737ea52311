// What a terminal takes as commands (ECMA-48: colours, moves of the cursor), in logs and listings.
#pragma once

#include <span>

namespace stepcast {

// Removes them in place; the length of what stays.
std::size_t drop_terminal_codes(std::span<char> text);

}  // namespace stepcast
