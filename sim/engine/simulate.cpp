#include "sim/engine/simulate.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "model/base/numbers.h"
#include "sim/engine/contention.h"

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

std::uint32_t host_of(Place place) { return Place(place.rank(), Lane::host).index; }

// The start of a task is the latest end of what it waits for. Only if `records`, it also finds what
// that was.
template <bool records>
struct Start {
    double time = 0;
    WaitedFor latest;
    void wait(double until, WaitedFor::Kind kind, std::uint32_t id) {
        if constexpr (!records)
            time = later(time, until);
        else if (until > time)
            time = until, latest = {kind, id};
    }
};

// By place: until when it is taken, and (only if recorded) the task that was there last.
struct Places {
    std::vector<double> free;
    std::vector<TaskId> last;
};

template <bool with_hosts, bool records>
Start<records> start_of(const TaskGraph& graph, TaskId t, const Costs& costs, const Seconds* finish,
                        const Places& at) {
    using Kind = WaitedFor::Kind;
    Start<records> start;
    for (const TaskId earlier : graph.predecessors(t))
        start.wait(finish[earlier].si(), Kind::predecessor, earlier);
    const auto rank_of = [](Place place) { return static_cast<std::uint32_t>(place.rank()); };
    const bool on_host = with_hosts && graph.on_host(t);
    for (const Place& place : graph.places(t))
        start.wait(at.free[place.index], on_host ? Kind::host : Kind::lane,
                   !records  ? 0
                   : on_host ? rank_of(place)
                             : at.last[place.index]);
    if (with_hosts && !on_host)
        for (const Place& place : graph.places(t))
            start.wait(at.free[host_of(place)] + costs.issue[t].si(), Kind::host, rank_of(place));
    return start;
}

template <bool with_hosts, bool records>
void run_tasks(const TaskGraph& graph, const Costs& costs, Timeline& timeline, Places& at) {
    const auto tasks = static_cast<TaskId>(graph.size());
    const Seconds* duration = costs.duration.data();
    Seconds* start_times = timeline.start.data();
    Seconds* finish_times = timeline.finish.data();
    double* free = at.free.data();
    std::vector<TaskId> issued_last(with_hosts ? as_index(graph.rank_count()) : 0, tasks);
    double end = 0;
    for (TaskId t = 0; t < tasks; ++t) {
        const auto start = start_of<with_hosts, records>(graph, t, costs, finish_times, at);
        if constexpr (records) timeline.waited_for[t] = start.latest;
        const double finish = start.time + duration[t].si();
        start_times[t] = Seconds(start.time);
        finish_times[t] = Seconds(finish);
        const bool issued = with_hosts && !graph.on_host(t);
        for (const Place& place : graph.places(t)) {
            free[place.index] = finish;
            if constexpr (records) at.last[place.index] = t;
            // A rank with two places of the task issues it once.
            if (!issued || std::exchange(issued_last[as_index(place.rank())], t) == t) continue;
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

void run_in_order(const TaskGraph& graph, const Costs& costs, Timeline& timeline, Record record) {
    const bool with_hosts = needs_hosts(graph, costs), records = record == Record::waits;
    timeline.start.resize(graph.size());
    timeline.finish.resize(graph.size());
    timeline.waited_for.resize(records ? graph.size() : 0);
    const auto places = as_index(graph.place_count());
    Places at{std::vector<double>(places), std::vector<TaskId>(records ? places : 0, no_task)};
    if (records)
        (with_hosts ? run_tasks<true, true> : run_tasks<false, true>)(graph, costs, timeline, at);
    else
        (with_hosts ? run_tasks<true, false> : run_tasks<false, false>)(graph, costs, timeline, at);
}

bool interact(const Costs& costs, const Interference& interference) {
    return interference.compute_slowdown != 0 || interference.communication_slowdown != 0 ||
           !costs.links.empty();
}

void run(const TaskGraph& graph, const Costs& costs, const Interference& interference,
         Timeline& timeline, Record record) {
    if (interact(costs, interference))
        run_with_contention(graph, costs, interference, timeline, record);
    else
        run_in_order(graph, costs, timeline, record);
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
