// Where the error of a step comes from: of own runs and of traced jobs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/graph/trace.h"

namespace stepcast {

// Why a predicted step is off: the prices of its tasks, or how they follow each other.

// The tasks of one op kind in one phase on the rank that ends last: their durations summed, and what the step would
// gain or lose if only they took what the cost model says.
struct KindError {
    std::string kind;  // kind_name()
    Phase phase = Phase::forward;
    Seconds predicted, measured;
    Seconds effect;
    friend bool operator==(const KindError&, const KindError&) = default;
};

// The step simulated twice: `predicted` with the cost model, `replayed` with the measured duration of every task.
// What separates these two is the cost error; what separates the replay from the measured step is the schedule error:
// waits, host time between tasks and skew that the engine does not know.
struct ErrorAttribution {
    Seconds predicted, replayed, measured;
    std::vector<KindError> kinds;  // largest effect first
    friend bool operator==(const ErrorAttribution&, const ErrorAttribution&) = default;
};
// Both relative to the measured step; they add up to the relative error of `predicted`.
inline double cost_error(const ErrorAttribution& a) { return (a.predicted - a.replayed) / a.measured; }
inline double schedule_error(const ErrorAttribution& a) { return a.replayed / a.measured - 1; }

// A step that a profiler traced next to what was predicted of it: plain values that calibrate fills and reports print.

// Of one rank, over the whole trace.
struct TracedRank {
    int rank = 0;
    Seconds measured_span, predicted_span;        // first to last work on the device
    Seconds measured_exposed, predicted_exposed;  // communication that no computation covers
    friend bool operator==(const TracedRank&, const TracedRank&) = default;
};

struct TracedStep {
    std::string name;
    std::vector<TracedRank> ranks;
    ErrorAttribution error;
    std::vector<std::string> notes;
    friend bool operator==(const TracedStep&, const TracedStep&) = default;
};

// Work as it was traced: a track of a process, next to the ranks of a graph.
struct TracedSlice {
    int process = 0, track = 0;
    std::string name, kind, phase;
    Seconds start, length;
    int micro_batch = -1, layer = -1;  // from 0; -1: not told
    friend bool operator==(const TracedSlice&, const TracedSlice&) = default;
};
struct TracedSlices {
    std::vector<std::pair<int, std::string>> processes;  // numbers next to the ranks', and names
    std::vector<TracedSlice> slices;
    std::vector<MemoryPoint> memory;  // rank: the process
    friend bool operator==(const TracedSlices&, const TracedSlices&) = default;
};

}  // namespace stepcast
