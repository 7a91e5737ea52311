// The simulator: takes a graph and a cost for each task, returns a trace. Two engines follow the
// same rules (task_graph.h): one pass in issue order if costs do not interact, and an event engine
// if concurrent tasks slow each other.
#pragma once

#include <vector>

#include "model/graph/step_times.h"
#include "model/graph/task_graph.h"
#include "model/graph/trace.h"
#include "sim/costs/costs.h"

namespace stepcast {

// What decided when a task started: the end of another task (its predecessor, or the task before it
// on a lane), or the host of a rank (that issued the task, or became free for it).
struct WaitedFor {
    enum class Kind : std::uint8_t { nothing, predecessor, lane, host };
    Kind kind = Kind::nothing;
    std::uint32_t id = 0;  // the task, or the rank whose host it is
    friend bool operator==(const WaitedFor&, const WaitedFor&) = default;
};

// Whether an engine also records what each task waited for, which takes it longer.
enum class Record : std::uint8_t { times, waits };

// Start and end of each task, as the engines compute them. Reused between calls, so that nothing is
// allocated.
struct Timeline {
    std::vector<Seconds> start, finish;  // by task id
    Seconds end;
    // By task id, if recorded: the latest that the task waited for. On a tie predecessors come
    // before lanes and lanes before hosts; of equals, the first counts.
    std::vector<WaitedFor> waited_for;
    friend bool operator==(const Timeline&, const Timeline&) = default;
};

// Whether tasks slow each other. A task on a compute lane runs at 1 / (1 + compute_slowdown) of its
// speed while a communication lane of its rank is busy, and communication at 1 / (1 +
// communication_slowdown) while one of its ranks computes. The first place of a task decides which
// kind it is, so a kernel that also holds a communication lane does not slow itself.
bool interact(const Costs& costs, const Interference& interference);

// Uses the engine that the interference requires: in order if tasks do not slow each other. The
// argument has no default, so that no caller forgets a cluster's interference: every figure and
// every trace of a step comes from this function.
void run(const TaskGraph& graph, const Costs& costs, const Interference& interference,
         Timeline& timeline, Record record = Record::times);

// The two engines, for code that compares or times them. With h[r] the time up to which the host of
// rank r is busy:
//   device task t on ranks R:
//     start = max(finish of predecessors, free time of its places, h[r] + issue[t] for r in R),
//     then h[r] += issue[t], or h[r] = finish of t with launch_blocking
//   host task t on ranks R:
//     start = max(finish of predecessors, h[r] for r in R), then h[r] = finish of t
// Throw std::logic_error unless there is one cost for each task.
void run_in_order(const TaskGraph& graph, const Costs& costs, Timeline& timeline,
                  Record record = Record::times);

Trace to_trace(const TaskGraph& graph, const Timeline& timeline);
StepTimes step_times(const TaskGraph& graph, const Timeline& timeline, int reporting_rank);

// Whether hosts can hold up any task: some task has an issue cost or is on a host lane, or launches
// block.
bool needs_hosts(const TaskGraph& graph, const Costs& costs);

}  // namespace stepcast
