// A step that a profiler traced beside what was predicted of it: plain values that calibrate fills and reports print.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/answers/attribution.h"
#include "model/graph/step_labels.h"

namespace stepcast {

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

// Work as it was traced: a track of a process, beside the ranks of a graph.
struct TracedSlice {
    int process = 0, track = 0;
    std::string name, kind, phase;
    Seconds start, length;
    int micro_batch = -1, layer = -1;  // from 0; -1: not told
    friend bool operator==(const TracedSlice&, const TracedSlice&) = default;
};
struct TracedSlices {
    std::vector<std::pair<int, std::string>> processes;  // numbers beside the ranks', and names
    std::vector<TracedSlice> slices;
    std::vector<MemoryPoint> memory;  // rank: the process
    friend bool operator==(const TracedSlices&, const TracedSlices&) = default;
};

}  // namespace stepcast
