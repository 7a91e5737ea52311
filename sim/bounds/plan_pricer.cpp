#include "sim/bounds/plan_pricer.h"

#include <algorithm>
#include <tuple>

#include "sim/bounds/least.h"
#include "sim/bounds/tail.h"
#include "sim/bounds/turns.h"

namespace stepcast {

namespace {

// Of an expert layer.
double kernels_of_both(const BoundShape& s) {
    return s.turns.waiting[feature::unit(UnitKind::experts, Pass::forward)] +
           s.turns.waiting[feature::unit(UnitKind::experts, Pass::backward)];
}

}  // namespace

PlanPricer::HostPart PlanPricer::price(const Plan& plan, Phase phase, int rank, std::size_t unit,
                                       BoundShape& s) {
    if (plan.tasks.empty()) return {};
    const bool blocking = prices_.cluster().launch_blocking;
    const bool waits = std::ranges::any_of(
        plan.tasks, [](const PlannedTask& t) { return t.lane == Lane::host && !t.starts; });
    const Run& once = stamped({{&plan, phase}}, rank, once_);
    const Costs device = without_hosts(once);
    const LeastTimes least =
        least_times(once.graph, device, prices_.cluster().interference.compute_slowdown);
    alone_[{&plan, phase, rank}] = {static_cast<TaskId>(once.graph.size()), least};
    s.lower[unit] = least.all;
    s.alone[unit] = least.alone;
    // Where host and device wait for each other, the estimate is what a second plan behind the
    // first adds.
    double added = 0;
    if (blocking || waits) {
        const Run& twice = stamped({{&plan, phase}, {&plan, phase}}, rank, twice_);
        added =
            std::max(least.all, end_of(twice.graph, twice.costs) - end_of(once.graph, once.costs));
    }
    // from here on timeline_ is that of this run
    const double alone = end_of(once.graph, device);
    s.estimate[unit] = blocking || waits ? added : alone;
    s.computing[unit] = computing(once.graph);
    std::tie(s.lead[unit], s.rest[unit]) = outside_collectives(once.graph);
    if (by_turns_) take_turns(once.graph, device, unit, s);
    return {blocking ? 0 : issue_time(once, 0), least.waits && !blocking};
}

double PlanPricer::lost_behind_wait(std::initializer_list<Stamp> stamps, int rank) {
    double device = 0;
    for (const Stamp& stamp : stamps) {
        const LeastTimes& least = alone(stamp, rank).least;
        device += &stamp == stamps.begin() ? least.after : least.all;
    }
    const TaskId of_first = alone(*stamps.begin(), rank).tasks;
    const Run& all = stamped(stamps, rank, once_);
    run_in_order(all.graph, all.costs, timeline_);
    Seconds wait;
    for (TaskId t = 0; t < of_first; ++t)
        if (waits_for_device(all.graph, t)) wait = timeline_.finish[t];
    return std::max(0.0, (timeline_.end - wait).si() - device);
}

void PlanPricer::take_cycle(const PassPlans& plans, int rank, BoundShape& s) {
    if (!by_turns_ || prices_.cluster().launch_blocking) return;
    const auto one = by_turns(plans, 1, 1, rank), two = by_turns(plans, 2, 2, rank);
    auto& [alternates, slowed, exchanging, waiting] = s.turns;
    alternates = one && one->parts > 1 && !one->waits.empty();
    if (!one || !two) {  // how collectives of both passes lie is not known: the kernels alone
        slowed = exchanging = waiting;
        return;
    }
    const PairTasks tasks = tasks_of(*one);
    for (const auto& [feature, left] :
         {std::pair(by_turns::apart, &tasks.apart), std::pair(by_turns::enters, &tasks.first),
          std::pair(by_turns::leaves, &tasks.left)})
        std::tie(slowed[feature], exchanging[feature]) = lanes_of(*one, *left);
    if (one->waits.empty()) return;
    run_behind(*two, two->waits[0]);
    waiting[by_turns::cycle] =
        std::max(0.0, timeline_.finish[two->waits[1]].si() - kernels_of_both(s));
    const PairTimes pair = take_pair(*one, tasks, s);
    take_alone(*by_turns(plans, 2, 1, rank), *by_turns(plans, 1, 2, rank), pair, s);
    take_first(*by_turns(plans, 1, 0, rank), s);
}

// Both begin with the backward's first part. Collectives before the forward's first kernel may have
// been done before, and those of the backward's last part may come behind the forward's last
// kernel.
PlanPricer::PairTasks PlanPricer::tasks_of(const Turns& one) {
    const std::size_t n = one.graph.size();
    PairTasks tasks{Tasks(n), Tasks(n), Tasks(n), Tasks(n), Tasks(n), Tasks(n)};
    bool computes = false;
    for (TaskId t = 0; t < n; ++t) {
        const auto [pass, part] = one.of[t];
        const Lane lane = one.graph.places(t).front().lane();
        tasks.first[t] = pass != Pass::forward && part == 0;  // its host waits, too
        if (lane == Lane::host) continue;
        const bool forward = pass == Pass::forward, last = part + 1 == one.parts,
                   exchanges = lane == Lane::collective;
        if (forward && lane == Lane::compute) computes = tasks.kernels[t] = true;
        tasks.ahead[t] = forward && !computes;
        // the forward exchanges at the end of its last part but one
        tasks.left[t] = forward && (last || (part + 2 == one.parts && exchanges));
        tasks.apart[t] = tasks.ahead[t] || (!forward && last && exchanges);
        tasks.backward[t] = !forward;
    }
    return tasks;
}

PlanPricer::PairTimes PlanPricer::take_pair(const Turns& one, const PairTasks& tasks,
                                            BoundShape& s) {
    const std::size_t n = one.graph.size();
    const TaskId wait = one.waits[0];
    Tasks begun = tasks.ahead;
    for (TaskId t = 0; t < n; ++t) begun[t] = begun[t] || tasks.first[t];
    const double whole = until(one, wait, Tasks(n)), base = until(one, wait, tasks.ahead),
                 entered = until(one, wait, begun);
    run_behind(one, wait);
    const double kernels = end_of(tasks.kernels), backward = end_of(tasks.backward);
    auto& waiting = s.turns.waiting;
    waiting[by_turns::pair] = std::max(0.0, base + kernels - kernels_of_both(s));
    waiting[by_turns::enters] = base - entered;
    waiting[by_turns::leaves] = std::max(0.0, kernels - backward);
    const double host = issue_time(one, 0);
    waiting[by_turns::behind] =
        std::max(0.0, std::max(whole + end_of(on_device(one)), host) - (base + kernels));
    return {base, kernels, issue_time(one, 0, wait + 1)};
}

// A second layer of one pass, behind a turn.
void PlanPricer::take_alone(const Turns& forward, const Turns& backward, const PairTimes& pair,
                            BoundShape& s) {
    const double ahead = s.lower[feature::unit(UnitKind::experts, Pass::forward)],
                 back = s.lower[feature::unit(UnitKind::experts, Pass::backward)];
    auto& waiting = s.turns.waiting;
    const TaskId first = forward.waits[0], second = forward.waits[1];
    run_behind(forward, first);
    const double between = timeline_.finish[second].si();
    run_behind(forward, second);
    const double rest = end_of(on_device(forward));
    waiting[by_turns::forward_alone] = std::max(0.0, between + rest - pair.kernels - ahead);
    run_behind(backward, backward.waits[0]);
    const double both = end_of(on_device(backward));
    waiting[by_turns::backward_alone] = std::max(0.0, both - pair.kernels - back);
    const double host_rest = issue_time(forward, second + 1),
                 host_both = issue_time(backward, backward.waits[0] + 1);
    waiting[by_turns::behind_forward] =
        std::max(0.0, host_rest + pair.host_begin - (rest + pair.base));
    waiting[by_turns::behind_backward] =
        std::max(0.0, host_both + pair.host_begin -
                          (pair.kernels + back + waiting[by_turns::backward_alone] + pair.base));
}

void PlanPricer::take_first(const Turns& forward, BoundShape& s) {
    auto& waiting = s.turns.waiting;
    const TaskId wait = forward.waits[0];
    const double before = until(forward, wait, tasks_of(forward).ahead);
    run_behind(forward, wait);
    waiting[by_turns::forward_first] =
        std::max(0.0, before + end_of(on_device(forward)) -
                          waiting[feature::unit(UnitKind::experts, Pass::forward)]);
}

PlanPricer::Tasks PlanPricer::on_device(const Turns& r) {
    Tasks tasks(r.graph.size());
    for (TaskId t = 0; t < r.graph.size(); ++t) tasks[t] = !r.graph.on_host(t);
    return tasks;
}

double PlanPricer::issue_time(const Run& r, TaskId first, TaskId last) {
    Seconds sum;
    for (TaskId t = first; t < std::min(last, static_cast<TaskId>(r.graph.size())); ++t)
        sum += r.costs.issue[t] + (r.graph.on_host(t) ? r.costs.duration[t] : Seconds(0));
    return sum.si();
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

std::optional<PlanPricer::Turns> PlanPricer::by_turns(const PassPlans& plans, int ahead, int back,
                                                      int rank) {
    const std::vector<Plan> forward = parts_at_exchanges(plans.forward, ops_),
                            backward = parts_at_exchanges(plans.backward, ops_);
    if (forward.size() != backward.size()) return std::nullopt;
    Turns r{{ops_, {}}, {}, {}, forward.size()};
    Stage stage(r.graph, {0}, {rank});
    Stage::Chain other = stage.chain();
    for (int layer = 0; layer < std::max(ahead, back); ++layer) {
        std::optional<TaskId> wait;
        for (std::size_t part = 0; part < r.parts; ++part) {
            if (layer < back) add({&backward[part], Phase::backward}, stage, r);
            r.of.resize(r.graph.size(), {Pass::backward, part});
            stage.swap_chain(other);
            const TaskId first = static_cast<TaskId>(r.graph.size());
            if (layer < ahead) add({&forward[part], Phase::forward}, stage, r);
            r.of.resize(r.graph.size(), {Pass::forward, part});
            stage.swap_chain(other);
            for (TaskId t = first; t < r.graph.size() && !wait; ++t)
                if (waits_for_device(r.graph, t)) wait = t;
        }
        if (wait) r.waits.push_back(*wait);
    }
    return r;
}

double PlanPricer::until(const Turns& r, TaskId wait, const Tasks& done) {
    Costs device = without_hosts(r);
    for (TaskId t = 0; t < r.graph.size(); ++t)
        if (done[t]) device.duration[t] = Seconds(0);
    run_in_order(r.graph, device, timeline_);
    return timeline_.finish[wait].si();
}

void PlanPricer::run_behind(const Turns& r, TaskId wait) {
    Costs costs = r.costs;
    for (TaskId t = 0; t <= wait; ++t) costs.duration[t] = costs.issue[t] = Seconds(0);
    run_in_order(r.graph, costs, timeline_);
}

double PlanPricer::end_of(const Tasks& tasks) const {
    Seconds end;
    for (TaskId t = 0; t < tasks.size(); ++t)
        if (tasks[t]) end = std::max(end, timeline_.finish[t]);
    return end.si();
}

std::pair<double, double> PlanPricer::lanes_of(const Turns& r, const Tasks& tasks) const {
    double kernels = 0, collectives = 0;
    for (TaskId t = 0; t < r.graph.size(); ++t) {
        if (!tasks[t] || r.graph.on_host(t)) continue;
        const bool computes = r.graph.places(t).front().lane() == Lane::compute;
        (computes ? kernels : collectives) += r.costs.duration[t].si();
    }
    const double slowdown = prices_.cluster().interference.compute_slowdown;
    return {kernels + lost_to_overlap(1e9, collectives, slowdown), collectives};
}

bool PlanPricer::waits_for_device(const TaskGraph& graph, TaskId t) {
    return graph.on_host(t) && !graph.predecessors(t).empty();
}

void PlanPricer::add(const Stamp& stamp, Stage& stage, Run& r) {
    const TaskId first = static_cast<TaskId>(r.graph.size());
    stage.stamp(*stamp.plan, stamp.phase);
    for (TaskId t = first; t < r.graph.size(); ++t) {
        r.costs.duration.push_back(price(r.graph, t, stamp.phase));
        r.costs.issue.push_back(static_cast<double>(r.graph.host_calls(t)) *
                                host_call_time(prices_.cluster()));
    }
}

Seconds PlanPricer::price(const TaskGraph& graph, TaskId task, Phase phase) {
    const GroupId group = graph.group_id(task);
    const auto [known, is_new] = priced_.try_emplace({graph.op_id(task), group, phase});
    if (is_new)
        known->second = group != 0 ? prices_.collective(graph.op(task), graph.group(group))
                                   : prices_.local(graph.op(task), phase);
    return known->second;
}

const PlanPricer::Alone& PlanPricer::alone(const Stamp& stamp, int rank) {
    const auto [known, is_new] = alone_.try_emplace({stamp.plan, stamp.phase, rank});
    if (is_new) {
        const Run& one = stamped({stamp}, rank, once_);
        known->second = {static_cast<TaskId>(one.graph.size()),
                         least_times(one.graph, without_hosts(one),
                                     prices_.cluster().interference.compute_slowdown)};
    }
    return known->second;
}

const PlanPricer::Run& PlanPricer::stamped(std::initializer_list<Stamp> stamps, int rank,
                                           std::optional<Run>& into) {
    if (!into) into.emplace();
    Run& r = *into;
    r.graph = ops_;  // what it holds already is written over, not freed
    r.costs.duration.clear();
    r.costs.issue.clear();
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
