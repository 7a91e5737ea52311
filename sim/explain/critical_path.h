// What each task waited for, read back from a timeline, and the chain of tasks that decides the
// length of the step.
#pragma once

#include <vector>

#include "sim/engine/simulate.h"
#include "sim/results/explanation.h"

namespace stepcast {

bool occupies(const TaskGraph& graph, TaskId t, int rank);

// The constraint of the engines (simulate.h) that decided when a task started: the end of another
// task (its predecessor, or the task before it on a lane), or the host of a rank (that issued the
// task, or that became free for it).
struct Binding {
    enum class Kind : std::uint8_t { nothing, predecessor, lane, host };
    Kind kind = Kind::nothing;
    TaskId task = 0;  // for predecessor and lane
    int rank = 0;     // for host
    friend bool operator==(const Binding&, const Binding&) = default;
};

// By task id: the latest of the task's constraints. On a tie predecessors come before lanes and
// lanes before hosts; of equals, the first counts. Exact for every engine, because each starts a
// task at the latest of the same times.
std::vector<Binding> bindings(const TaskGraph& graph, const Costs& costs, const Timeline& timeline);

// Either the task ran for `time`, or (`issue`) the host of `rank` took `time` to issue it.
struct PathSegment {
    TaskId task = 0;
    bool issue = false;
    Seconds time;
    int rank = 0;
    friend bool operator==(const PathSegment&, const PathSegment&) = default;
};

// Walks back from the start of `task` to a task that nothing held up. The segments follow each
// other without a gap.
class BackWalk {
public:
    BackWalk(const TaskGraph& graph, const Costs& costs, const Timeline& timeline,
             const std::vector<Binding>& bindings, TaskId task);
    // Returns the segment before, or false when the walk has reached the start of the step.
    bool step(PathSegment& segment);
    [[nodiscard]] TaskId task() const { return task_; }

private:
    bool step_to(TaskId task, PathSegment& segment);
    bool step_on_host(PathSegment& segment);

    const TaskGraph& graph_;
    const Costs& costs_;
    const Timeline& timeline_;
    const std::vector<Binding>& bindings_;
    TaskId task_;
    // the rank whose host held up the task, while the walk is among what that host issued
    int host_ = -1;
};

// The segments in order, up to the task that ends last. Empty for a graph without tasks.
std::vector<PathSegment> critical_path(const TaskGraph& graph, const Costs& costs,
                                       const Timeline& timeline,
                                       const std::vector<Binding>& bindings);

// The highest level of the network that the task's collective crosses.
LinkLevel link_of(const TaskGraph& graph, TaskId t, const Cluster& cluster);

}  // namespace stepcast
