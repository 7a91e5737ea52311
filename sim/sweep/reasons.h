// Why points of a search were left out, counted; messages that differ only in numbers are one,
// with their range.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/sweep/worker.h"

namespace stepcast {

void count_reason(Reasons& reasons, std::string_view reason, std::uint64_t points);

// If two texts differ only in numbers: the text with ranges that cover the numbers of both.
// Otherwise "".
std::string with_ranges(std::string_view a, std::string_view b);

}  // namespace stepcast
