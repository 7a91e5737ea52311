#include "sim/engine/simulate.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace stepcast {
namespace {

void check_costs(const TaskGraph& graph, const Costs& costs) {
    if (costs.duration.size() != graph.size() || costs.issue.size() != graph.size())
        throw std::logic_error(fmt::format("simulate: {} durations and {} issue costs for {} tasks",
                                           costs.duration.size(), costs.issue.size(),
                                           graph.size()));
}

// Plain doubles, because comparing them compiles to one instruction.
double later(double a, double b) { return a < b ? b : a; }

double ready_time(const TaskGraph& graph, TaskId t, const Seconds* finish, const double* free) {
    double ready = 0;
    for (const TaskId earlier : graph.predecessors(t)) ready = later(ready, finish[earlier].si());
    for (const Place& place : graph.places(t)) ready = later(ready, free[place.index]);
    return ready;
}

std::uint32_t host_of(Place place) { return Place(place.rank(), Lane::host).index; }

// When all hosts of the task have issued it. A rank with two places of the task issues it once, so
// hosts move on after all were read.
double issue_on_hosts(const TaskGraph& graph, TaskId t, double issue, const double* free) {
    double issued = 0;
    for (const Place& place : graph.places(t)) issued = later(issued, free[host_of(place)] + issue);
    return issued;
}

template <bool with_hosts>
void run_tasks(const TaskGraph& graph, const Costs& costs, Timeline& timeline, double* free) {
    const auto tasks = static_cast<TaskId>(graph.size());
    const Seconds* duration = costs.duration.data();
    Seconds* start_of = timeline.start.data();
    Seconds* finish_of = timeline.finish.data();
    std::vector<TaskId> issued_last(with_hosts ? static_cast<std::size_t>(graph.rank_count()) : 0,
                                    tasks);
    double end = 0;
    for (TaskId t = 0; t < tasks; ++t) {
        double start = ready_time(graph, t, finish_of, free);
        const bool issued = with_hosts && !graph.on_host(t);
        if (issued) start = later(start, issue_on_hosts(graph, t, costs.issue[t].si(), free));
        const double finish = start + duration[t].si();
        start_of[t] = Seconds(start);
        finish_of[t] = Seconds(finish);
        for (const Place& place : graph.places(t)) {
            free[place.index] = finish;
            if (!issued ||
                std::exchange(issued_last[static_cast<std::size_t>(place.rank())], t) == t)
                continue;
            double& host = free[host_of(place)];
            host = graph.launch_blocking() ? finish : host + costs.issue[t].si();
        }
        end = later(end, finish);
    }
    timeline.end = Seconds(end);
}

}  // namespace

bool needs_hosts(const TaskGraph& graph, const Costs& costs) {
    check_costs(graph, costs);
    if (graph.launch_blocking() || graph.has_host_tasks()) return true;
    // In blocks without an early exit, so that the compiler vectorises the scan.
    constexpr std::size_t block = 1024;
    for (std::size_t first = 0; first < costs.issue.size(); first += block) {
        const std::size_t end = std::min(first + block, costs.issue.size());
        bool any = false;
        for (std::size_t t = first; t < end; ++t) any |= costs.issue[t].si() > 0;
        if (any) return true;
    }
    return false;
}

void run_in_order(const TaskGraph& graph, const Costs& costs, Timeline& timeline) {
    const bool with_hosts = needs_hosts(graph, costs);
    timeline.start.resize(graph.size());
    timeline.finish.resize(graph.size());
    std::vector<double> free(static_cast<std::size_t>(graph.place_count()));
    (with_hosts ? run_tasks<true> : run_tasks<false>)(graph, costs, timeline, free.data());
}

bool interact(const Costs& costs, const Interference& interference) {
    return interference.compute_slowdown != 0 || interference.communication_slowdown != 0 ||
           !costs.links.empty();
}

void run(const TaskGraph& graph, const Costs& costs, const Interference& interference,
         Timeline& timeline) {
    if (interact(costs, interference))
        run_with_contention(graph, costs, interference, timeline);
    else
        run_in_order(graph, costs, timeline);
}

Trace to_trace(const TaskGraph& graph, const Timeline& timeline) {
    Trace trace;
    trace.spans.reserve(graph.place_offset(static_cast<TaskId>(graph.size())));
    for (TaskId t = 0; t < graph.size(); ++t)
        for (const Place& place : graph.places(t))
            trace.spans.push_back({t, place, timeline.start[t], timeline.finish[t]});
    return trace;
}

StepTimes step_times(const TaskGraph& graph, const Timeline& timeline, int reporting_rank) {
    PhaseClock clock;
    for (TaskId t = 0; t < graph.size(); ++t)
        for (const Place& place : graph.places(t))
            if (place.rank() == reporting_rank)
                clock.add(graph.phase(t), place.lane(), graph.op(t), timeline.start[t],
                          timeline.finish[t]);
    return clock.times(timeline.end);
}

}  // namespace stepcast
