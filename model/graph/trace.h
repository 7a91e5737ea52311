// When each task ran on each of its places: the common result of simulating, executing and importing.
#pragma once

#include <string>
#include <vector>

#include "model/graph/task_graph.h"
#include "model/units.h"

namespace stepcast {

struct Span {
    TaskId task = 0;
    Place place;
    Seconds start, finish;
    friend bool operator==(const Span&, const Span&) = default;
};

struct Trace {
    NAMED_ENUM_IN(Origin, "an origin", simulated, executed, imported);
    Origin origin = Origin::simulated;
    std::vector<Span> spans;  // by task id, then in the order of the task's places
    friend bool operator==(const Trace&, const Trace&) = default;
};

// What a step's tasks belong to, for pictures of it. By task id, from 0; -1: of none. Empty where the workload is no transformer.
struct StepLabels {
    std::vector<int> micro_batch, layer;
    friend bool operator==(const StepLabels&, const StepLabels&) = default;
};
// What a rank has allocated from `time` on: one point of its counter track.
struct MemoryPoint {
    int rank = 0;
    Seconds time;
    Bytes in_use;
    friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};

Seconds step_end(const Trace& trace);  // latest finish; 0 for an empty trace

// Throws std::logic_error naming the first broken rule of task_graph.h: a span missing or doubled, a task before its
// predecessor (by more than `slack`; where both have a rank, its finish there counts), two tasks of one place
// overlapping or out of id order.
void check_trace(const TaskGraph& graph, const Trace& trace, Seconds slack = Seconds(1e-12));

// Whether a trace shows a graph at all, before its times are asked about: "" when the spans are the graph's tasks in their order, each on its places and of no negative length; else the first that
// is not.
std::string span_mismatch(const TaskGraph& graph, const Trace& trace);

}  // namespace stepcast
