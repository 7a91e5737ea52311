#include "model/graph/step_times.h"

#include <algorithm>

#include "model/base/lists.h"
#include "model/base/numbers.h"

namespace stepcast {

namespace {

// How much of the time after `from` the spans cover; sets `last` to the latest finish.
template <class Spans>
Seconds covered_after(Seconds from, Spans spans, Seconds& last) {
    std::ranges::sort(spans, {}, [](const auto& span) { return span.start; });
    Seconds covered;
    last = from;
    for (const auto& span : spans) {
        const Seconds start = std::max(span.start, last);
        if (span.finish <= start) continue;
        covered += span.finish - start;
        last = span.finish;
    }
    return covered;
}

}  // namespace

// A task that finishes after `reached_` adds the difference to its phase. Tasks come in id order,
// which keeps micro-batches in sequence, so each phase gets its own part of each micro-batch.
void PhaseClock::add(Phase phase, Lane lane, const Op& op, Seconds start, Seconds finish) {
    pipelined_ = pipelined_ || std::holds_alternative<SendRecv>(op);
    if (phase == Phase::gradient_sync) return sync_.push_back({start, finish});
    if (phase == Phase::optimizer) return optimizer_.push_back({start, finish});
    const auto p = as_index(phase);
    if (finish > reached_) length_[p] += finish - reached_;
    reached_ = std::max(reached_, finish);
    if (lane != Lane::compute && lane != Lane::collective) return;
    if (finish > covered_[p]) busy_[p] += finish - std::max(start, covered_[p]);
    covered_[p] = std::max(covered_[p], finish);
}

StepTimes PhaseClock::times(Seconds step) const {
    const auto& own = pipelined_ ? busy_ : length_;
    StepTimes times;
    times.step = step;
    times.forward = own[as_index(Phase::forward)];
    times.backward = own[as_index(Phase::backward)];
    Seconds synced, end;
    const Seconds busy_sync = covered_after(reached_, sync_, synced);
    Spans both = sync_;
    append(both, optimizer_);
    const Seconds busy_both = covered_after(reached_, std::move(both), end);
    times.gradient_sync = pipelined_ ? busy_sync : synced - reached_;
    times.optimizer = pipelined_ ? busy_both - busy_sync : end - synced;
    return times;
}

int reporting_rank(const TaskGraph& graph) {
    const bool pipelined = std::ranges::any_of(
        graph.ops(), [](const Op& op) { return std::holds_alternative<SendRecv>(op); });
    return pipelined ? graph.rank_count() - 1 : 0;
}

StepTimes step_times(const TaskGraph& graph, const Trace& trace, int reporting_rank) {
    PhaseClock clock;
    for (const Span& span : trace.spans)
        if (span.place.rank() == reporting_rank)
            clock.add(graph.phase(span.task), span.place.lane(), graph.op(span.task), span.start,
                      span.finish);
    return clock.times(step_end(trace));
}
StepTimes step_times(const TaskGraph& graph, const Trace& trace) {
    return step_times(graph, trace, reporting_rank(graph));
}

}  // namespace stepcast
