// Step, forward, backward, gradient sync, optimizer: the common ground of prediction, execution and logs.
#pragma once

#include <array>
#include <vector>

#include "model/graph/trace.h"

namespace stepcast {

// As a log of the reporting rank would print it. Without a pipeline, `forward` runs from the start of the step to the
// end of the rank's last forward task, `backward` from there (or from the end of what runs between them) to the end of
// its last backward task (waits and overlapped communication inside); with several micro-batches both are summed over
// them, as a log's timers are. In a pipeline they are the sums of the rank's busy spans: a kernel or a collective inside
// the layers runs. `gradient_sync` and `optimizer` are what follows, exposed; in a pipeline without the time in which the
// rank only waits for other stages. `step` is the whole step, over all ranks.
struct StepTimes {
    Seconds step, forward, backward, gradient_sync, optimizer;
    friend bool operator==(const StepTimes&, const StepTimes&) = default;
};

StepTimes step_times(const TaskGraph& graph, const Trace& trace, int reporting_rank);
StepTimes step_times(const TaskGraph& graph, const Trace& trace);

// The rank that logs report: 0; in a pipeline one of the last stage.
int reporting_rank(const TaskGraph& graph);

// Gathers the tasks of one rank, in id order, into its step times.
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
    Seconds reached_;  // end of all that has run of forward, backward and between
    Spans sync_, optimizer_;
    bool pipelined_ = false;
};

}  // namespace stepcast
