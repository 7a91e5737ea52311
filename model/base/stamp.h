// A short hash of a value, which shows whether the value changed. It is no protection against
// intent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stepcast {

class TaskGraph;

// FNV-1a, which is equal on every machine; std::hash need not be. `from` is the hash of the text
// before this one.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t from = 14695981039346656037ULL) {
    for (const char c : text) from = (from ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return from;
}

std::string stamp_of(std::string_view text);  // 16 hexadecimal digits
// The tasks in their order: names, phases, kinds, places and predecessors.
std::string stamp_of(const TaskGraph& graph);

}  // namespace stepcast
