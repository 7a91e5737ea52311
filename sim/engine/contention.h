// The event engine and the structure that it derives from a graph.
#pragma once

#include "model/graph/task_graph.h"
#include "sim/costs/costs.h"
#include "sim/engine/simulate.h"

namespace stepcast {

void run_with_contention(const TaskGraph& graph, const Costs& costs,
                         const Interference& interference, Timeline& timeline,
                         Record record = Record::times);

}  // namespace stepcast
