// When each task ran on each of its places: the common result of simulation, execution and import.
#pragma once

#include <string>
#include <vector>

#include "model/base/units.h"
#include "model/graph/task_graph.h"

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

// Memory that a rank has allocated from `time` on: one point of its counter track.
struct MemoryPoint {
    int rank = 0;
    Seconds time;
    Bytes in_use;
    friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};

Seconds step_end(const Trace& trace);  // latest finish; 0 for an empty trace

// Throws std::logic_error with the first broken rule of task_graph.h: a span missing or duplicated;
// a task that starts before its predecessor ends (by more than `slack`; on a shared rank, its
// finish there counts); tasks of one place overlapping or out of id order.
void check_trace(const TaskGraph& graph, const Trace& trace, Seconds slack = Seconds(1e-12));

// Whether a trace belongs to a graph; check this before using its times. Returns "" if the spans
// are the graph's tasks in order, each on its places and with no negative length; else a
// description of the first mismatch.
std::string span_mismatch(const TaskGraph& graph, const Trace& trace);

}  // namespace stepcast
