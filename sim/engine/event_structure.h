// What the event engine needs to know of a graph and that follows from the graph alone: who waits for whom.
#pragma once

#include <limits>
#include <vector>

#include "model/graph/task_graph.h"

namespace stepcast {

inline constexpr TaskId no_later_task = std::numeric_limits<TaskId>::max();

// Tasks that touch a rank, in id order: what its host works through.
struct HostQueue {
    std::uint32_t next = 0, end = 0;
};

struct EventStructure {
    bool with_hosts = false;
    std::vector<std::uint32_t> waits;            // per task: predecessors, places with an earlier task, hosts
    std::vector<std::uint32_t> successor_begin;  // CSR
    std::vector<TaskId> successors;
    std::vector<TaskId> next_on_place;  // per (task, place): next task of that place
    std::vector<HostQueue> hosts;       // per rank, into host_tasks
    std::vector<TaskId> host_tasks;
};

// `with_hosts`: hosts can hold up tasks (needs_hosts()), so that every task waits for the host of each of its ranks.
EventStructure event_structure(const TaskGraph& graph, bool with_hosts);

}  // namespace stepcast
