// A short name of what something holds, to notice that it is no longer the same. No protection against intent.
#pragma once

#include <string>
#include <string_view>

namespace stepcast {

class TaskGraph;

std::string stamp_of(std::string_view text);  // 16 hexadecimal digits
// Of its tasks in their order: names, phases, kinds, places and predecessors.
std::string stamp_of(const TaskGraph& graph);

}  // namespace stepcast
