// Step, forward, backward, gradient sync and optimizer times, the measures that predictions,
// executions and logs share.
#pragma once

#include <array>
#include <vector>

#include "model/graph/trace.h"

namespace stepcast {

// Times as a log of the reporting rank would print them. Without a pipeline, `forward` runs from
// the start of the step to the end of the rank's last forward task. `backward` runs from there (or
// from the end of what runs in between) to the end of its last backward task, waits and overlapped
// communication included. With several micro-batches both are sums over them, as in a log's timers.
// In a pipeline both are sums of the rank's busy spans, when a kernel or a collective inside the
// layers runs. `gradient_sync` and `optimizer` are the exposed times afterwards; in a pipeline
// without the time in which the rank only waits for other stages. `step` is the whole step over all
// ranks.
struct StepTimes {
    Seconds step, forward, backward, gradient_sync, optimizer;
    friend bool operator==(const StepTimes&, const StepTimes&) = default;
};

StepTimes step_times(const TaskGraph& graph, const Trace& trace, int reporting_rank);
StepTimes step_times(const TaskGraph& graph, const Trace& trace);

// The rank that logs report: rank 0, or in a pipeline a rank of the last stage.
int reporting_rank(const TaskGraph& graph);

// Sums the tasks of one rank, added in id order, to its step times.
class PhaseClock {
public:
    void add(Phase phase, Lane lane, const Op& op, Seconds start, Seconds finish);
    [[nodiscard]] StepTimes times(Seconds step) const;

private:
    struct Running {
        Seconds start, finish;
    };
    using Spans = std::vector<Running>;
    std::array<Seconds, phase_count> length_{}, busy_{}, covered_{};
    Seconds reached_;  // latest finish so far of forward, between and backward tasks
    Spans sync_, optimizer_;
    bool pipelined_ = false;
};

}  // namespace stepcast
