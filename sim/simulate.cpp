#include "sim/simulate.h"

#include <algorithm>
#include <array>

namespace stepcast {
namespace {

bool uses_host(const TaskGraph& graph, const Costs& costs) {
    return graph.launch_blocking() || std::any_of(costs.issue.begin(), costs.issue.end(), [](Seconds s) { return s > Seconds(0); });
}

Seconds ready_time(const TaskGraph& graph, TaskId t, const Timeline& timeline, const std::vector<Seconds>& free) {
    Seconds ready;
    for (const TaskId earlier : graph.predecessors(t)) ready = std::max(ready, timeline.finish[earlier]);
    for (const Place& place : graph.places(t)) ready = std::max(ready, free[place.index]);
    return ready;
}

// The host of each rank issues the task: its clock advances by the issue cost, and the task waits for that.
Seconds issue_on_hosts(const TaskGraph& graph, TaskId t, Seconds issue, std::vector<Seconds>& free) {
    Seconds issued;
    for (const Place& place : graph.places(t)) {
        Seconds& host = free[Place(place.rank(), Lane::host).index];
        host += issue;
        issued = std::max(issued, host);
    }
    return issued;
}

void run_with_hosts(const TaskGraph& graph, const Costs& costs, Timeline& timeline, std::vector<Seconds>& free) {
    for (TaskId t = 0; t < graph.size(); ++t) {
        Seconds start = ready_time(graph, t, timeline, free);
        const bool on_host = graph.places(t).front().lane() == Lane::host;
        if (!on_host) start = std::max(start, issue_on_hosts(graph, t, costs.issue[t], free));
        const Seconds finish = start + costs.duration[t];
        timeline.start[t] = start;
        timeline.finish[t] = finish;
        for (const Place& place : graph.places(t)) {
            free[place.index] = finish;
            if (graph.launch_blocking()) free[Place(place.rank(), Lane::host).index] = finish;
        }
        timeline.end = std::max(timeline.end, finish);
    }
}

void run_without_hosts(const TaskGraph& graph, const Costs& costs, Timeline& timeline, std::vector<Seconds>& free) {
    Seconds end;
    for (TaskId t = 0; t < graph.size(); ++t) {
        const Seconds start = ready_time(graph, t, timeline, free);
        const Seconds finish = start + costs.duration[t];
        timeline.start[t] = start;
        timeline.finish[t] = finish;
        for (const Place& place : graph.places(t)) free[place.index] = finish;
        end = std::max(end, finish);
    }
    timeline.end = end;
}

}  // namespace

void run_in_order(const TaskGraph& graph, const Costs& costs, Timeline& timeline) {
    timeline.start.resize(graph.size());
    timeline.finish.resize(graph.size());
    timeline.end = Seconds(0);
    std::vector<Seconds> free(static_cast<std::size_t>(graph.place_count()));
    if (uses_host(graph, costs)) run_with_hosts(graph, costs, timeline, free);
    else run_without_hosts(graph, costs, timeline, free);
}

Trace to_trace(const TaskGraph& graph, const Timeline& timeline) {
    Trace trace;
    for (TaskId t = 0; t < graph.size(); ++t)
        for (const Place& place : graph.places(t)) trace.spans.push_back({t, place, timeline.start[t], timeline.finish[t]});
    return trace;
}

StepTimes step_times(const TaskGraph& graph, const Timeline& timeline, int reporting_rank) {
    std::array<Seconds, phase_count> phase_end{};
    for (TaskId t = 0; t < graph.size(); ++t)
        for (const Place& place : graph.places(t)) {
            if (place.rank() != reporting_rank) continue;
            Seconds& last = phase_end[static_cast<std::size_t>(graph.phase(t))];
            last = std::max(last, timeline.finish[t]);
        }
    return step_times(phase_end, timeline.end);
}

Trace simulate(const TaskGraph& graph, const Costs& costs) {
    Timeline timeline;
    run_in_order(graph, costs, timeline);
    return to_trace(graph, timeline);
}

}  // namespace stepcast
