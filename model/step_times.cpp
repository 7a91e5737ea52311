#include "model/step_times.h"

#include <algorithm>
#include <array>

namespace stepcast {

StepTimes step_times(const TaskGraph& graph, const Trace& trace, int reporting_rank) {
    std::array<Seconds, phase_count> end{};
    for (const Span& span : trace.spans)
        if (span.place.rank() == reporting_rank) {
            Seconds& last = end[static_cast<std::size_t>(graph.phase(span.task))];
            last = std::max(last, span.finish);
        }
    StepTimes times;
    Seconds reached;
    const auto take = [&](Phase phase) {
        const Seconds until = std::max(reached, end[static_cast<std::size_t>(phase)]);
        const Seconds length = until - reached;
        reached = until;
        return length;
    };
    times.forward = take(Phase::forward);
    times.backward = take(Phase::backward);
    times.gradient_sync = take(Phase::gradient_sync);
    times.optimizer = take(Phase::optimizer);
    times.step = step_end(trace);
    return times;
}

}  // namespace stepcast
