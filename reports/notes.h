// The notes of a forecast: all of them, or what they come to in two lines.
#pragma once

#include <string>
#include <vector>

namespace stepcast {

std::string every_note(const std::vector<std::string>& notes);

// At most two lines: what is extrapolated and how much kept its prior; the first of the others and how many more there are.
std::string brief_notes(const std::vector<std::string>& notes);

}  // namespace stepcast
