// The trace of a graph by the engine that the interference requires.
#pragma once

#include <utility>
#include <vector>

#include "model/step.h"
#include "sim/costs/costs.h"
#include "sim/engine/simulate.h"

namespace stepcast {

inline Trace simulate(const TaskGraph& graph, const Costs& costs,
                      const Interference& interference) {
    Timeline timeline;
    run(graph, costs, interference, timeline);
    return to_trace(graph, timeline);
}

// The step of the engine, without noise.
inline Seconds engine_step(const Experiment& e) {
    const TaskGraph graph = build_step(e, routing_of(e));
    Timeline timeline;
    run(graph, price(graph, e.cluster), e.cluster.interference, timeline);
    return timeline.end;
}

// Tasks that cost the host nothing.
inline Costs free_issue(std::vector<Seconds> durations) {
    const std::size_t tasks = durations.size();
    return {std::move(durations), std::vector<Seconds>(tasks)};
}

}  // namespace stepcast
