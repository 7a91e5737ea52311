// How large a step may become. A task takes some 200 bytes, so that the largest step needs 10 GB.
#pragma once

#include <cstddef>

namespace stepcast {

inline constexpr std::size_t most_tasks = 50'000'000;
inline constexpr std::size_t most_graph_entries = 1'000'000'000;  // places and dependencies of all tasks

}  // namespace stepcast
