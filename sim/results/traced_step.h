// Where the error of a predicted step comes from, for own runs and for traced jobs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/graph/trace.h"

namespace stepcast {

// Why a predicted step is wrong: the durations of its tasks, or the order and waits between them.

// The tasks of one op kind in one phase on the rank that ends last: their summed durations, and how
// the step would change if these tasks alone took the time that the cost model predicts.
struct KindError {
    std::string kind;  // kind_name()
    Phase phase = Phase::forward;
    Seconds predicted, measured;
    Seconds effect;
    friend bool operator==(const KindError&, const KindError&) = default;
};

// The step simulated twice: `predicted` with the cost model, `replayed` with the measured duration
// of every task. Their difference is the cost error. The difference between the replay and the
// measured step is the schedule error: waits, host time between tasks, and skew that the engine
// does not model.
struct ErrorAttribution {
    Seconds predicted, replayed, measured;
    std::vector<KindError> kinds;  // largest effect first
    friend bool operator==(const ErrorAttribution&, const ErrorAttribution&) = default;
};
// Both relative to the measured step; they add up to the relative error of `predicted`.
inline double cost_error(const ErrorAttribution& a) {
    return (a.predicted - a.replayed) / a.measured;
}
inline double schedule_error(const ErrorAttribution& a) { return a.replayed / a.measured - 1; }

// A step that a profiler traced beside its prediction: plain values that calibrate/ fills and
// reports print.

// Sums of one rank over the whole trace.
struct TracedRank {
    int rank = 0;
    Seconds measured_span, predicted_span;        // from the first to the last work on the device
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

// Traced work, drawn on a track of a process beside the ranks of a graph.
struct TracedSlice {
    int process = 0, track = 0;
    std::string name, kind, phase;
    Seconds start, length;
    int micro_batch = -1, layer = -1;  // from 0; -1: not stated
    friend bool operator==(const TracedSlice&, const TracedSlice&) = default;
};
struct TracedSlices {
    // process number (in one sequence with the ranks') and name
    std::vector<std::pair<int, std::string>> processes;
    std::vector<TracedSlice> slices;
    std::vector<MemoryPoint> memory;  // its `rank` is the number of the process
    friend bool operator==(const TracedSlices&, const TracedSlices&) = default;
};

}  // namespace stepcast
