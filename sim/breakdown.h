// Where the step of one rank went.
#pragma once

#include "model/answers/forecast.h"
#include "sim/engine/simulate.h"

namespace stepcast {

// The rank whose last task ends last (lowest number on a tie).
int slowest_rank(const TaskGraph& graph, const Timeline& timeline);

// Splits [0, step] of `rank`: compute kernel running; else memory pass running; else a transfer running = exposed
// communication; else the rank waits, and what its next task waited for has the name, moment by moment: its own host
// issuing or working = host; another stage of the pipeline, also where it holds up a collective among this rank's own =
// bubble; another rank = imbalance. What is no cause has no part: a host that works ahead while its device waits for
// something else. After its last task a rank waits for the task that ends the step. The six add up to the step.
Breakdown breakdown(const TaskGraph& graph, const Costs& costs, const Timeline& timeline, int rank);

// How long each rank was in tasks that count at the place where they are.
template <typename Counts>
std::vector<Seconds> busy_times(const TaskGraph& graph, const Timeline& timeline, Counts counts) {
    std::vector<Seconds> busy(static_cast<std::size_t>(graph.rank_count()));
    for (TaskId t = 0; t < graph.size(); ++t)
        for (const Place& place : graph.places(t))
            if (counts(t, place)) busy[static_cast<std::size_t>(place.rank())] += timeline.finish[t] - timeline.start[t];
    return busy;
}

}  // namespace stepcast
