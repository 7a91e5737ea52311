// How far a replay is from the job that was traced.
#pragma once

#include <vector>

#include "calibrate/profiles/replay.h"

namespace stepcast {

// A rank's device from its first span to its last, and communication that no product, attention or pass covers; copies are neither.
struct DeviceUse {
    Seconds span, exposed;
};
DeviceUse use_of(const TaskGraph& graph, const Trace& trace, int rank);

// Durations of both sides by kind and phase on a rank, and what the step would gain or lose if only these took what the tables say;
// the largest effect first.
std::vector<KindError> kinds_of(const Replay& replay, int rank);

}  // namespace stepcast
