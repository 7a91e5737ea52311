// Why points were left out, counted. Complaints that differ in numbers only are one reason, with the range of each number:
// "parallelism.global_batch: 96 is no multiple of dp x micro_batch = 64..256".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace stepcast {

using Reasons = std::map<std::string, std::uint64_t, std::less<>>;

void count_reason(Reasons& reasons, std::string_view reason, std::uint64_t points);

// Of two texts alike but for their numbers: with the ranges that hold those of both. Otherwise "".
std::string with_ranges(std::string_view a, std::string_view b);

}  // namespace stepcast
