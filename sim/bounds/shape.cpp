#include "sim/bounds/shape.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "model/base/numbers.h"
#include "model/transformer/counts.h"
#include "model/transformer/layer_plans.h"
#include "model/transformer/plan.h"
#include "model/transformer/stage.h"
#include "sim/bounds/least.h"
#include "sim/bounds/tail.h"
#include "sim/costs/op_costs.h"
#include "sim/engine/simulate.h"

namespace stepcast {

Seconds OpPrices::local(const Op& op, Phase phase) {
    const auto* g = std::get_if<Gemm>(&op);
    if (!g) return op_time(op, phase, {}, cluster_);
    const auto [known, is_new] = gemms_.try_emplace(*g);
    if (is_new) known->second = op_time(op, phase, {}, cluster_);
    return known->second;
}

Seconds OpPrices::collective(const Op& op, const Group& group) {
    return group.size() <= 1 ? Seconds(0) : time_in_step(op, paths_.of(group), cluster_);
}

namespace {

class PlanPricer {
public:
    PlanPricer(const TaskGraph& ops, OpPrices& prices, bool by_turns)
        : ops_(ops), prices_(prices), by_turns_(by_turns) {}

    // What the host takes to issue a plan, and LeastTimes::waits.
    struct HostPart {
        double time = 0;
        bool waits = false;
    };
    // Fills in unit `unit` of the shape, priced on the expert-parallel rank `rank`.
    HostPart price(const Plan& plan, Phase phase, int rank, std::size_t unit, BoundShape& s) {
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
            added = std::max(least.all,
                             end_of(twice.graph, twice.costs) - end_of(once.graph, once.costs));
        }
        // from here on timeline_ is that of this run
        const double alone = end_of(once.graph, device);
        s.estimate[unit] = blocking || waits ? added : alone;
        s.computing[unit] = computing(once.graph);
        std::tie(s.lead[unit], s.rest[unit]) = outside_collectives(once.graph);
        if (by_turns_) take_turns(once.graph, device, unit, s);
        HostPart host{.waits = least.waits && !blocking};
        for (TaskId t = 0; t < once.graph.size() && !blocking; ++t)
            host.time += (once.costs.issue[t] +
                          (once.graph.on_host(t) ? once.costs.duration[t] : Seconds(0)))
                             .si();
        return host;
    }

    struct Stamp {
        const Plan* plan;
        Phase phase;
    };
    // In the first of these plans the host waits. What is lost behind that moment until the last of
    // them ends, compared with what they take on the device one by one.
    double lost_behind_wait(std::initializer_list<Stamp> stamps, int rank) {
        const double slowdown = prices_.cluster().interference.compute_slowdown;
        double device = 0;
        for (const Stamp& stamp : stamps) {
            const Run one = stamped({stamp}, rank);
            const LeastTimes least = least_times(one.graph, without_hosts(one), slowdown);
            device += &stamp == stamps.begin() ? least.after : least.all;
        }
        const TaskId of_first = stamped({*stamps.begin()}, rank).graph.size();
        const Run all = stamped(stamps, rank);
        run_in_order(all.graph, all.costs, timeline_);
        Seconds wait;
        for (TaskId t = 0; t < of_first; ++t)
            if (waits_for_device(all.graph, t)) wait = timeline_.finish[t];
        return std::max(0.0, (timeline_.end - wait).si() - device);
    }

    // What layers that go by turns take beyond their kernels (sim/bounds/turns.h).
    void take_cycle(const PassPlans& plans, int rank, BoundShape& s) {
        if (!by_turns_ || prices_.cluster().launch_blocking) return;
        const Stamp ahead{&plans.forward, Phase::forward}, back{&plans.backward, Phase::backward};
        const auto one = by_turns(ahead, back, 1, rank), two = by_turns(ahead, back, 2, rank);
        if (!one || !two) return;
        const double alone = until(*one, one->waits[0]) + behind(*one, one->waits[0]),
                     cycle = behind(*two, two->waits[0], two->waits[1]);
        double host = 0;  // to issue both layers
        for (TaskId t = 0; t < one->graph.size(); ++t)
            host += (one->costs.issue[t] +
                     (one->graph.on_host(t) ? one->costs.duration[t] : Seconds(0)))
                        .si();
        FeatureTimes& times = s.turns.waiting;
        const double both = times[feature::unit(UnitKind::experts, Pass::forward)] +
                            times[feature::unit(UnitKind::experts, Pass::backward)];
        times[feature::stall(Pass::forward)] = std::max(0.0, cycle - both);
        times[feature::turn] = std::max(0.0, std::max(alone, host) - both);
    }

private:
    struct Run {
        TaskGraph graph;
        Costs costs;
    };

    void take_turns(const TaskGraph& graph, const Costs& costs, std::size_t unit,
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

    // Layers of a forward and of a backward by turns, and for each the first moment at which the
    // forward's host waits for the device. Nothing where it does not, or where the passes have
    // unequal parts.
    struct Turns : Run {
        std::vector<TaskId> waits;
    };
    std::optional<Turns> by_turns(const Stamp& forward, const Stamp& backward, int layers,
                                  int rank) {
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
                const TaskId first = r.graph.size();
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

    // When the host has waited, if nothing waits for its own work.
    double until(const Turns& r, TaskId wait) {
        const Costs device = without_hosts(r);
        run_in_order(r.graph, device, timeline_);
        return timeline_.finish[wait].si();
    }
    // From a wait on until `last`, or all on the device if none, ends; what comes before takes no
    // time.
    double behind(const Turns& r, TaskId wait, std::optional<TaskId> last = {}) {
        Costs costs = r.costs;
        for (TaskId t = 0; t <= wait; ++t) costs.duration[t] = costs.issue[t] = Seconds(0);
        run_in_order(r.graph, costs, timeline_);
        if (last) return timeline_.finish[*last].si();
        Seconds end;
        for (TaskId t = 0; t < r.graph.size(); ++t)
            if (!r.graph.on_host(t)) end = std::max(end, timeline_.finish[t]);
        return end.si();
    }

    static bool waits_for_device(const TaskGraph& graph, TaskId t) {
        return graph.on_host(t) && !graph.predecessors(t).empty();
    }

    void add(const Stamp& stamp, Stage& stage, Run& r) {
        const TaskId first = r.graph.size();
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

    Run stamped(std::initializer_list<Stamp> stamps, int rank) {
        Run r{ops_, {}};
        Stage stage(r.graph, {0}, {rank});
        for (const Stamp& stamp : stamps) add(stamp, stage, r);
        return r;
    }

    // Host time is zero, except for host tasks that wait for the device.
    static Costs without_hosts(const Run& r) {
        Costs costs = r.costs;
        for (TaskId t = 0; t < r.graph.size(); ++t) {
            costs.issue[t] = Seconds(0);
            if (r.graph.on_host(t) && r.graph.predecessors(t).empty())
                costs.duration[t] = Seconds(0);
        }
        return costs;
    }

    // The kernel time of the last run during which no collective runs.
    double computing(const TaskGraph& graph) const {
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

    // The time of the last run before its first collective, and after its last.
    [[nodiscard]] std::pair<double, double> outside_collectives(const TaskGraph& graph) const {
        double first = timeline_.end.si(), last = 0;
        for (TaskId t = 0; t < graph.size(); ++t) {
            if (graph.places(t).front().lane() != Lane::collective) continue;
            first = std::min(first, timeline_.start[t].si());
            last = std::max(last, timeline_.finish[t].si());
        }
        return {first, timeline_.end.si() - last};
    }

    double end_of(const TaskGraph& graph, const Costs& costs) {
        run(graph, costs, prices_.cluster().interference, timeline_);
        return timeline_.end.si();
    }

    const TaskGraph& ops_;
    OpPrices& prices_;
    bool by_turns_;
    Timeline timeline_;
};

void fill_waits(HostWaits& waits, PlanPricer& pricer, const PassPlans& plans, int rank) {
    using Stamp = PlanPricer::Stamp;
    const Stamp forward{&plans.forward, Phase::forward}, again{&plans.recompute, Phase::backward};
    for (const auto& [pass, plan] : {std::pair(Pass::backward, &plans.backward),
                                     std::pair(Pass::input_backward, &plans.input_backward)}) {
        const Stamp back{plan, Phase::backward};
        const std::size_t i = as_index(pass);
        if (plan->tasks.empty()) continue;
        if (waits.again) waits.repeated[i] = pricer.lost_behind_wait({again, back}, rank);
        if (!waits.pass[as_index(Pass::forward)]) continue;
        waits.turn[i] = pricer.lost_behind_wait({forward, back}, rank);
        waits.turn_again[i] = pricer.lost_behind_wait({forward, again, back}, rank);
    }
}

// Prices the passes of one kind of unit on an expert-parallel rank.
void fill(BoundShape& s, PlanPricer& pricer, UnitKind kind, const PassPlans& plans, int rank = 0) {
    const bool layer = kind <= UnitKind::experts;
    const std::array<const Plan*, 4> passes{&plans.forward, &plans.backward, &plans.input_backward,
                                            &plans.weight_backward};
    for (std::size_t i = 0; i < 4; ++i) {
        const auto pass = static_cast<Pass>(i);
        const Phase phase = i == 0 ? Phase::forward : Phase::backward;
        const auto host = pricer.price(*passes[i], phase, rank, feature::unit(kind, pass), s);
        if (layer)
            s.lower[feature::host(kind, pass)] = s.estimate[feature::host(kind, pass)] = host.time;
        if (kind == UnitKind::experts) s.waits.pass[i] = host.waits;
    }
    if (!layer) return;
    const std::size_t again = feature::host_again(kind);
    const auto host = pricer.price(plans.recompute, Phase::backward, rank, feature::again(kind), s);
    s.lower[again] = s.estimate[again] = host.time;
    if (kind != UnitKind::experts) return;
    s.waits.again = host.waits;
    pricer.take_cycle(plans, rank, s);
    fill_waits(s.waits, pricer, plans, rank);
}

// Over the ranks of an expert-parallel group, the busiest rank's work bounds the step from below.
// Each pass is estimated by the rank that takes longest in it, because the collectives between
// passes make the others wait.
void fill_busiest(BoundShape& s, PlanPricer& pricer, const PassPlans& plans, int ranks) {
    const auto work = [](const BoundShape& of) {
        return of.lower[feature::unit(UnitKind::experts, Pass::forward)] +
               of.lower[feature::unit(UnitKind::experts, Pass::backward)];
    };
    BoundShape one = s;
    fill(s, pricer, UnitKind::experts, plans);
    FeatureTimes longest = s.estimate;
    for (int rank = 1; rank < ranks; ++rank) {
        fill(one, pricer, UnitKind::experts, plans, rank);
        for (std::size_t f = 0; f < feature::hosts; ++f)
            longest[f] = std::max(longest[f], one.estimate[f]);
        if (work(one) > work(s)) s = one;
    }
    std::copy_n(longest.values.begin(), feature::hosts, s.estimate.values.begin());
}

}  // namespace

BoundShape bound_shape(const Experiment& experiment, const Routing& routing) {
    Experiment e = experiment;
    e.parallelism.schedule = Schedule::zb_h1;  // the schedules share a shape
    BoundShape s;
    s.routing = routing;
    s.shape = rank_shape(e);
    const RankGroups groups = rank_groups(e);
    const LayerContext context{e, s.shape, groups, routing};
    e.parallelism.pp = 2;
    s.copied_head = head_weights(context);
    e.parallelism.pp = 1;
    s.units = unit_memory(context);
    return s;
}

void add_times(BoundShape& s, const Experiment& experiment, OpPrices& prices) {
    Experiment e = experiment;
    e.parallelism.schedule = Schedule::zb_h1;  // makes plans of split backwards as well
    const RankGroups groups = rank_groups(e);
    const LayerContext context{e, s.shape, groups, s.routing};
    TaskGraph ops(1, e.cluster.launch_blocking);
    const LayerPlans plans = layer_plans(ops, context);
    PlanPricer pricer(ops, prices, e.parallelism.overlap_experts);
    bool dense = false;
    for (int l = 0; l < e.workload.layers + e.workload.mtp_layers; ++l)
        dense = dense || !has_experts(e.workload, l);
    if (dense) fill(s, pricer, UnitKind::dense, plans.dense);
    fill(s, pricer, UnitKind::embedding, plans.embedding);
    fill(s, pricer, UnitKind::head, plans.head);
    fill_busiest(s, pricer, plans.experts, s.routing.counts.empty() ? 1 : e.parallelism.ep);
    s.gather = prices.collective(AllGather{s.shape.outer()}, groups.tensor);
    s.timed = true;
}

}  // namespace stepcast
