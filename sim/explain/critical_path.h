// The chain of tasks that decides the length of the step, from what each task waited for.
// Timelines must be simulated with Record::waits, else std::logic_error.
#pragma once

#include <vector>

#include "sim/engine/simulate.h"
#include "sim/results/explanation.h"

namespace stepcast {

bool occupies(const TaskGraph& graph, TaskId t, int rank);

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
    BackWalk(const TaskGraph& graph, const Costs& costs, const Timeline& timeline, TaskId task);
    // Returns the segment before, or false when the walk has reached the start of the step.
    bool step(PathSegment& segment);
    [[nodiscard]] TaskId task() const { return task_; }

private:
    bool step_to(TaskId task, PathSegment& segment);
    bool step_on_host(PathSegment& segment);

    const TaskGraph& graph_;
    const Costs& costs_;
    const Timeline& timeline_;
    TaskId task_;
    // the rank whose host held up the task, while the walk is among what that host issued
    int host_ = -1;
};

// The segments in order, up to the task that ends last. Empty for a graph without tasks.
std::vector<PathSegment> critical_path(const TaskGraph& graph, const Costs& costs,
                                       const Timeline& timeline);

// The highest level of the network that the task's collective crosses.
LinkLevel link_of(const TaskGraph& graph, TaskId t, const Cluster& cluster);

}  // namespace stepcast
