// What ran each kind of task: the lines that a run states, so that no forecast is compared in
// silence with another step than its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/graph/task_graph.h"

namespace stepcast {

// "attention", and "flash attention" where the graph asks for one kernel; kind_name() for others.
std::string kind_of_task(const Op& op);

// `ran` names the kernel or library of a task. One line for each kind of task and each `ran` of it,
// over the tasks of `rank`: "flash attention, 24 tasks: own fused kernel". A collective of a single
// rank runs nothing and has no line.
std::vector<std::string> kernel_table(const TaskGraph& graph, int rank,
                                      const std::function<std::string(TaskId, const Op&)>& ran);

}  // namespace stepcast
