// Where the time of one rank's step went.
#pragma once

#include "model/base/numbers.h"
#include "sim/engine/simulate.h"
#include "sim/results/forecast.h"

namespace stepcast {

// The rank whose last task ends last (lowest number on a tie).
int slowest_rank(const TaskGraph& graph, const Timeline& timeline);

// Splits the time [0, step] of `rank` into six parts, which add up to the step. At each moment the
// first that applies counts: compute (a kernel runs), memory (a memory pass runs), exposed
// communication (a transfer runs). Otherwise the rank waits, and the part is what its next task
// waited for at that moment: host (its own host issues or works), bubble (another pipeline stage,
// even if it only delays a collective of this rank's stage) or imbalance (another rank). A host
// that works ahead while its device waits for something else is no cause. After its last task a
// rank waits for the task that ends the step. The timeline must be simulated with Record::waits.
Breakdown breakdown(const TaskGraph& graph, const Costs& costs, const Timeline& timeline, int rank);

// The pipeline stage of each rank. Ranks that are connected by sends, directly or through others,
// form one pipeline, whose stages follow the rank numbers. All are 0 in a graph without sends.
std::vector<int> pipeline_stages(const TaskGraph& graph);

// The time that each rank spends in the tasks for which `counts(task, place)` is true.
template <typename Counts>
std::vector<Seconds> busy_times(const TaskGraph& graph, const Timeline& timeline, Counts counts) {
    std::vector<Seconds> busy(as_index(graph.rank_count()));
    for (TaskId t = 0; t < graph.size(); ++t)
        for (const Place& place : graph.places(t))
            if (counts(t, place))
                busy[as_index(place.rank())] += timeline.finish[t] - timeline.start[t];
    return busy;
}

}  // namespace stepcast
