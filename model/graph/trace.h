// When each task ran on each of its places: the common result of simulating, executing and importing.
#pragma once

#include <cstdint>
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
    enum class Origin : std::uint8_t { simulated, executed, imported };
    Origin origin = Origin::simulated;
    std::vector<Span> spans;  // by task id, then in the order of the task's places
    friend bool operator==(const Trace&, const Trace&) = default;
};
constexpr auto names_of(Trace::Origin) {
    using enum Trace::Origin;
    return name_table<Trace::Origin>("an origin", {{simulated, "simulated"}, {executed, "executed"}, {imported, "imported"}});
}

Seconds step_end(const Trace& trace);  // latest finish; 0 for an empty trace

// Throws std::logic_error naming the first broken rule of task_graph.h: a span missing or doubled, a task before its
// predecessor (by more than `slack`; where both have a rank, its finish there counts), two tasks of one place
// overlapping or out of id order.
void check_trace(const TaskGraph& graph, const Trace& trace, Seconds slack = Seconds(1e-12));

// Whether a trace shows a graph at all, before its times are asked about: "" when the spans are the graph's tasks in their order, each on its places and of no negative length; else the first that
// is not.
std::string span_mismatch(const TaskGraph& graph, const Trace& trace);

}  // namespace stepcast
