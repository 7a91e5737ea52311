#include "model/step_times.h"

#include <algorithm>

namespace stepcast {

void PhaseClock::add(Phase phase, Lane lane, const Op& op, Seconds start, Seconds finish) {
    const auto p = static_cast<std::size_t>(phase);
    end_[p] = std::max(end_[p], finish);
    pipelined_ = pipelined_ || std::holds_alternative<SendRecv>(op);
    if (lane != Lane::compute && lane != Lane::collective) return;
    if (finish > covered_[p]) busy_[p] += finish - std::max(start, covered_[p]);
    covered_[p] = std::max(covered_[p], finish);
}

StepTimes PhaseClock::times(Seconds step) const {
    Seconds reached;
    const auto take = [&](Phase phase) {
        const Seconds until = std::max(reached, end_[static_cast<std::size_t>(phase)]);
        const Seconds length = until - reached;
        reached = until;
        return length;
    };
    StepTimes times;
    times.step = step;
    times.forward = take(Phase::forward);
    (void)take(Phase::between);
    times.backward = take(Phase::backward);
    times.gradient_sync = take(Phase::gradient_sync);
    times.optimizer = take(Phase::optimizer);
    if (pipelined_) {
        times.forward = busy_[static_cast<std::size_t>(Phase::forward)];
        times.backward = busy_[static_cast<std::size_t>(Phase::backward)];
    }
    return times;
}

int reporting_rank(const TaskGraph& graph) {
    const bool pipelined =
        std::ranges::any_of(graph.ops(), [](const Op& op) { return std::holds_alternative<SendRecv>(op); });
    return pipelined ? graph.rank_count() - 1 : 0;
}

StepTimes step_times(const TaskGraph& graph, const Trace& trace, int reporting_rank) {
    PhaseClock clock;
    for (const Span& span : trace.spans)
        if (span.place.rank() == reporting_rank)
            clock.add(graph.phase(span.task), span.place.lane(), graph.op(span.task), span.start, span.finish);
    return clock.times(step_end(trace));
}
StepTimes step_times(const TaskGraph& graph, const Trace& trace) {
    return step_times(graph, trace, reporting_rank(graph));
}

}  // namespace stepcast
