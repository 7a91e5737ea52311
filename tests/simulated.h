// The trace of a graph by the engine that the interference requires.
#pragma once

#include "sim/engine/simulate.h"

namespace stepcast {

inline Trace simulate(const TaskGraph& graph, const Costs& costs,
                      const Interference& interference) {
    Timeline timeline;
    run(graph, costs, interference, timeline);
    return to_trace(graph, timeline);
}

}  // namespace stepcast
