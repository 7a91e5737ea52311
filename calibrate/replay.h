// A traced job as a graph of tasks on lanes: kernels on their streams, the host that launches them
// and waits for them, and collectives over the given ranks. Run with the job's own kernel tables,
// it shows what follows from them: the step and its exposed communication.
#pragma once

#include <vector>

#include "import/profiles/profile.h"
#include "model/graph/task_graph.h"
#include "model/graph/trace.h"
#include "sim/results/traced_step.h"

namespace stepcast {

struct Replay {
    TaskGraph graph;
    std::vector<Seconds> table;  // by task: its time in the tables, the median of similar calls
    // by task: the time of this call; for a collective the shortest of its ranks
    std::vector<Seconds> measured;
    Trace traced;  // as traced, on the lanes of the graph
    // as it follows from `table`; on each rank a collective begins when that rank arrives
    Trace predicted;
    TracedStep step;  // of the whole trace
};

// Keeps the traced host time between launches, and the traced dependencies as far as streams and
// calls show them: a collective waits for the kernels launched before it, a kernel for the
// collective directly before it, the host for the device where a synchronising call ended. Throws
// ConfigError where the ranks' collectives do not match, or where no kernel's launch is in the
// trace.
Replay replay(const std::vector<Profile>& ranks);

// The op of a span in a graph: its operator's or collective's work where known, else a pass over
// its bytes; and its phase.
Op op_of(const Profile& profile, const DeviceSpan& span);
Phase phase_of(ProfilePhase phase);

// A rank's device: from its first span to its last, and communication during which no product,
// attention or pass runs. Copies are neither.
inline bool on_device(Lane lane) { return lane != Lane::host && lane != Lane::receive_up; }
struct DeviceUse {
    Seconds span, exposed;
};
DeviceUse use_of(const TaskGraph& graph, const Trace& trace, int rank);

}  // namespace stepcast
