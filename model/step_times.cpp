#include "model/step_times.h"

#include <algorithm>

namespace stepcast {

StepTimes step_times(const std::array<Seconds, phase_count>& phase_end, Seconds step) {
    Seconds reached;
    const auto take = [&](Phase phase) {
        const Seconds until = std::max(reached, phase_end[static_cast<std::size_t>(phase)]);
        const Seconds length = until - reached;
        reached = until;
        return length;
    };
    StepTimes times;
    times.step = step;
    times.forward = take(Phase::forward);
    times.backward = take(Phase::backward);
    times.gradient_sync = take(Phase::gradient_sync);
    times.optimizer = take(Phase::optimizer);
    return times;
}

StepTimes step_times(const TaskGraph& graph, const Trace& trace, int reporting_rank) {
    std::array<Seconds, phase_count> phase_end{};
    for (const Span& span : trace.spans) {
        if (span.place.rank() != reporting_rank) continue;
        Seconds& last = phase_end[static_cast<std::size_t>(graph.phase(span.task))];
        last = std::max(last, span.finish);
    }
    return step_times(phase_end, step_end(trace));
}

}  // namespace stepcast
