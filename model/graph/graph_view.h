// A task graph seen as a general graph: an order found without trusting task ids, the longest path, a picture.
// Independent of the engines, so that tests can hold them against it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/graph/task_graph.h"
#include "model/units.h"

namespace stepcast {

struct Dependency {
    TaskId before = 0, after = 0;
    friend bool operator==(const Dependency&, const Dependency&) = default;
};

// What makes a task wait: its predecessors only, or also the task before it on each of its places.
enum class Waits { predecessors, predecessors_and_places };
std::vector<Dependency> dependencies(const TaskGraph& graph, Waits waits);

// Every task after all that it depends on. Throws std::logic_error when they form a cycle or name no task.
std::vector<TaskId> topological_order(std::size_t task_count, std::span<const Dependency> dependencies);

struct CriticalPath {
    std::vector<TaskId> tasks;  // in the order they run
    Seconds length;
    friend bool operator==(const CriticalPath&, const CriticalPath&) = default;
};

// The chain of dependent tasks with the largest sum of durations (one a task). Over predecessors and places its length
// is the step itself while the hosts hold nothing up.
CriticalPath critical_path(const TaskGraph& graph, std::span<const Seconds> durations,
                           Waits waits = Waits::predecessors_and_places);

// Graphviz text: a node a task (name, op kind, places), solid arrows for predecessors, dotted for queues of a place.
std::string to_dot(const TaskGraph& graph);

}  // namespace stepcast
