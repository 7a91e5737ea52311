#include "sim/bounds/plan_pricer.h"

#include <algorithm>
#include <tuple>

#include "sim/bounds/least.h"
#include "sim/bounds/tail.h"

namespace stepcast {

PlanPricer::HostPart PlanPricer::price(const Plan& plan, Phase phase, int rank, std::size_t unit,
                                       BoundShape& s) {
    if (plan.tasks.empty()) return {};
    const bool blocking = prices_.cluster().launch_blocking;
    const bool waits = std::ranges::any_of(
        plan.tasks, [](const PlannedTask& t) { return t.lane == Lane::host && !t.starts; });
    const Run once = stamped({{&plan, phase}}, rank);
    const Costs device = without_hosts(once);
    const LeastTimes least =
        least_times(once.graph, device, prices_.cluster().interference.compute_slowdown);
    s.lower[unit] = least.all;
    s.alone[unit] = least.alone;
    // Where host and device wait for each other, the estimate is what a second plan behind the
    // first adds.
    double added = 0;
    if (blocking || waits) {
        const Run twice = stamped({{&plan, phase}, {&plan, phase}}, rank);
        added =
            std::max(least.all, end_of(twice.graph, twice.costs) - end_of(once.graph, once.costs));
    }
    // from here on timeline_ is that of this run
    const double alone = end_of(once.graph, device);
    s.estimate[unit] = blocking || waits ? added : alone;
    s.computing[unit] = computing(once.graph);
    std::tie(s.lead[unit], s.rest[unit]) = outside_collectives(once.graph);
    if (by_turns_) take_turns(once.graph, device, unit, s);
    HostPart host{.waits = least.waits && !blocking};
    for (TaskId t = 0; t < once.graph.size() && !blocking; ++t)
        host.time +=
            (once.costs.issue[t] + (once.graph.on_host(t) ? once.costs.duration[t] : Seconds(0)))
                .si();
    return host;
}

double PlanPricer::lost_behind_wait(std::initializer_list<Stamp> stamps, int rank) {
    const double slowdown = prices_.cluster().interference.compute_slowdown;
    double device = 0;
    for (const Stamp& stamp : stamps) {
        const Run one = stamped({stamp}, rank);
        const LeastTimes least = least_times(one.graph, without_hosts(one), slowdown);
        device += &stamp == stamps.begin() ? least.after : least.all;
    }
    const TaskId of_first = static_cast<TaskId>(stamped({*stamps.begin()}, rank).graph.size());
    const Run all = stamped(stamps, rank);
    run_in_order(all.graph, all.costs, timeline_);
    Seconds wait;
    for (TaskId t = 0; t < of_first; ++t)
        if (waits_for_device(all.graph, t)) wait = timeline_.finish[t];
    return std::max(0.0, (timeline_.end - wait).si() - device);
}

void PlanPricer::take_cycle(const PassPlans& plans, int rank, BoundShape& s) {
    if (!by_turns_ || prices_.cluster().launch_blocking) return;
    const Stamp ahead{&plans.forward, Phase::forward}, back{&plans.backward, Phase::backward};
    const auto one = by_turns(ahead, back, 1, rank), two = by_turns(ahead, back, 2, rank);
    if (!one || !two) return;
    const double alone = until(*one, one->waits[0]) + behind(*one, one->waits[0]),
                 cycle = behind(*two, two->waits[0], two->waits[1]);
    double host = 0;  // to issue both layers
    for (TaskId t = 0; t < one->graph.size(); ++t)
        host +=
            (one->costs.issue[t] + (one->graph.on_host(t) ? one->costs.duration[t] : Seconds(0)))
                .si();
    FeatureTimes& times = s.turns.waiting;
    const double both = times[feature::unit(UnitKind::experts, Pass::forward)] +
                        times[feature::unit(UnitKind::experts, Pass::backward)];
    times[feature::stall(Pass::forward)] = std::max(0.0, cycle - both);
    times[feature::turn] = std::max(0.0, std::max(alone, host) - both);
}

void PlanPricer::take_turns(const TaskGraph& graph, const Costs& costs, std::size_t unit,
                            BoundShape& s) const {
    double kernels = 0, collectives = 0;
    for (TaskId t = 0; t < graph.size(); ++t) {
        const Lane lane = graph.places(t).front().lane();
        if (lane == Lane::compute) kernels += costs.duration[t].si();
        if (lane == Lane::collective) collectives += costs.duration[t].si();
    }
    s.turns.waiting[unit] = kernels;
    s.turns.exchanging[unit] = collectives;
    s.turns.slowed[unit] =
        kernels +
        lost_to_overlap(1e9, collectives, prices_.cluster().interference.compute_slowdown);
}

std::optional<PlanPricer::Turns> PlanPricer::by_turns(const Stamp& forward, const Stamp& backward,
                                                      int layers, int rank) {
    const std::vector<Plan> ahead = parts_at_exchanges(*forward.plan, ops_),
                            back = parts_at_exchanges(*backward.plan, ops_);
    if (ahead.size() != back.size()) return std::nullopt;
    Turns r{{ops_, {}}, {}};
    Stage stage(r.graph, {0}, {rank});
    Stage::Chain other = stage.chain();
    for (int layer = 0; layer < layers; ++layer) {
        std::optional<TaskId> wait;
        for (std::size_t part = 0; part < ahead.size(); ++part) {
            add({&back[part], backward.phase}, stage, r);
            stage.swap_chain(other);
            const TaskId first = static_cast<TaskId>(r.graph.size());
            add({&ahead[part], forward.phase}, stage, r);
            stage.swap_chain(other);
            for (TaskId t = first; t < r.graph.size() && !wait; ++t)
                if (waits_for_device(r.graph, t)) wait = t;
        }
        if (!wait) return std::nullopt;
        r.waits.push_back(*wait);
    }
    return r;
}

double PlanPricer::until(const Turns& r, TaskId wait) {
    const Costs device = without_hosts(r);
    run_in_order(r.graph, device, timeline_);
    return timeline_.finish[wait].si();
}

double PlanPricer::behind(const Turns& r, TaskId wait, std::optional<TaskId> last) {
    Costs costs = r.costs;
    for (TaskId t = 0; t <= wait; ++t) costs.duration[t] = costs.issue[t] = Seconds(0);
    run_in_order(r.graph, costs, timeline_);
    if (last) return timeline_.finish[*last].si();
    Seconds end;
    for (TaskId t = 0; t < r.graph.size(); ++t)
        if (!r.graph.on_host(t)) end = std::max(end, timeline_.finish[t]);
    return end.si();
}

bool PlanPricer::waits_for_device(const TaskGraph& graph, TaskId t) {
    return graph.on_host(t) && !graph.predecessors(t).empty();
}

void PlanPricer::add(const Stamp& stamp, Stage& stage, Run& r) {
    const TaskId first = static_cast<TaskId>(r.graph.size());
    stage.stamp(*stamp.plan, stamp.phase);
    for (TaskId t = first; t < r.graph.size(); ++t) {
        const GroupId group = r.graph.group_id(t);
        r.costs.duration.push_back(group != 0
                                       ? prices_.collective(r.graph.op(t), r.graph.group(group))
                                       : prices_.local(r.graph.op(t), stamp.phase));
        r.costs.issue.push_back(static_cast<double>(r.graph.host_calls(t)) *
                                host_call_time(prices_.cluster()));
    }
}

PlanPricer::Run PlanPricer::stamped(std::initializer_list<Stamp> stamps, int rank) {
    Run r{ops_, {}};
    Stage stage(r.graph, {0}, {rank});
    for (const Stamp& stamp : stamps) add(stamp, stage, r);
    return r;
}

Costs PlanPricer::without_hosts(const Run& r) {
    Costs costs = r.costs;
    for (TaskId t = 0; t < r.graph.size(); ++t) {
        costs.issue[t] = Seconds(0);
        if (r.graph.on_host(t) && r.graph.predecessors(t).empty()) costs.duration[t] = Seconds(0);
    }
    return costs;
}

double PlanPricer::computing(const TaskGraph& graph) const {
    double sum = 0;
    for (TaskId t = 0; t < graph.size(); ++t) {
        if (graph.places(t).front().lane() != Lane::compute) continue;
        sum += (timeline_.finish[t] - timeline_.start[t]).si();
        for (TaskId other = 0; other < graph.size(); ++other)
            if (graph.places(other).front().lane() == Lane::collective)
                sum -= std::max(0.0, (std::min(timeline_.finish[t], timeline_.finish[other]) -
                                      std::max(timeline_.start[t], timeline_.start[other]))
                                         .si());
    }
    return sum;
}

std::pair<double, double> PlanPricer::outside_collectives(const TaskGraph& graph) const {
    double first = timeline_.end.si(), last = 0;
    for (TaskId t = 0; t < graph.size(); ++t) {
        if (graph.places(t).front().lane() != Lane::collective) continue;
        first = std::min(first, timeline_.start[t].si());
        last = std::max(last, timeline_.finish[t].si());
    }
    return {first, timeline_.end.si() - last};
}

double PlanPricer::end_of(const TaskGraph& graph, const Costs& costs) {
    run(graph, costs, prices_.cluster().interference, timeline_);
    return timeline_.end.si();
}

}  // namespace stepcast
