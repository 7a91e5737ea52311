// A traced job as tasks on lanes: its kernels on their streams, the host that launches them and waits for them, collectives
// over the ranks at hand. Run with the times of its own kernel tables it tells what follows from them: the step, and how much
// of the communication computation does not cover.
#pragma once

#include <vector>

#include "calibrate/profiles/profile.h"
#include "model/answers/traced_step.h"
#include "model/graph/task_graph.h"
#include "model/graph/trace.h"

namespace stepcast {

struct Replay {
    TaskGraph graph;
    std::vector<Seconds> table;     // by task: what the tables say of it, the median of calls alike
    std::vector<Seconds> measured;  // .. what this call took, of a collective the shortest over its ranks
    Trace traced;                   // as it went, on the lanes of the graph
    Trace predicted;                // as it follows from `table`; a collective begins on a rank when that arrives
    TracedStep step;                // the whole trace
};

// Host time between launches is taken as it was, and so is what waits for what, as far as streams and calls tell: a collective
// for the kernels launched before it, a kernel for the collective that it began behind, the host for the device where a call
// of it ended. Throws ConfigError where the ranks' collectives do not match, or no kernel has its launch in the window.
Replay replay(const std::vector<Profile>& ranks);

// What a span is in a graph: its kind of work, where an operator or a collective tells it, else a pass of its bytes; and its phase.
Op op_of(const Profile& profile, const DeviceSpan& span);
Phase phase_of(ProfilePhase phase);

// A rank's device from its first span to its last, and communication that no product, attention or pass covers; copies are neither.
inline bool on_device(Lane lane) { return lane != Lane::host && lane != Lane::receive_up; }
struct DeviceUse {
    Seconds span, exposed;
};
DeviceUse use_of(const TaskGraph& graph, const Trace& trace, int rank);

}  // namespace stepcast
