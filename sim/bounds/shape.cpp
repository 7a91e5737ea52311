#include "sim/bounds/shape.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "model/transformer/counts.h"
#include "model/transformer/layer_plans.h"
#include "model/transformer/stage.h"
#include "sim/bounds/least.h"
#include "sim/engine/simulate.h"

namespace stepcast {

std::size_t OpPrices::GemmHash::operator()(const Gemm& g) const {
    std::size_t hash = 0;
    for (const long part : {g.m, g.n, g.k, g.batch, static_cast<long>(g.dtype), static_cast<long>(g.accumulate)})
        hash = (hash ^ static_cast<std::size_t>(part)) * 0x9E3779B97F4A7C15ull;
    return hash ^ (hash >> 32);
}

Seconds OpPrices::local(const Op& op, Phase phase) {
    const auto* gemm = std::get_if<Gemm>(&op);
    if (!gemm) return op_time(op, phase, {}, cluster_);
    if (const auto known = gemms_.find(*gemm); known != gemms_.end()) return known->second;
    return gemms_.emplace(*gemm, op_time(op, phase, {}, cluster_)).first->second;
}

Seconds OpPrices::collective(const Op& op, const Group& group) {
    return group.size() <= 1 ? Seconds(0) : time_in_step(op, paths_.of(group), cluster_);
}

namespace {

// What a plan takes on one rank.
struct PlanTimes {
    double lower = 0, estimate = 0, host = 0, computing = 0;
    double alone = 0;           // of lower: kernels that overlap no collective of the plan
    double lead = 0, rest = 0;  // before the first collective, after the last
};

class PlanPricer {
public:
    PlanPricer(const TaskGraph& ops, OpPrices& prices) : ops_(ops), prices_(prices) {}

    // For the expert-parallel rank `rank`.
    PlanTimes times(const Plan& plan, Phase phase, int rank) {
        if (plan.tasks.empty()) return {};
        const bool blocking = prices_.cluster().launch_blocking;
        const bool waits =
            std::ranges::any_of(plan.tasks, [](const PlannedTask& t) { return t.lane == Lane::host && !t.starts; });
        PlanTimes times;
        const Run once = stamped(plan, phase, rank, 1);
        const Costs device = without_hosts(once);
        const LeastTimes least = least_times(once.graph, device, prices_.cluster().interference.compute_slowdown);
        times.lower = least.all;
        times.alone = least.alone;
        for (TaskId t = 0; t < once.graph.size(); ++t)
            times.host += (once.costs.issue[t] + (once.graph.on_host(t) ? once.costs.duration[t] : Seconds(0))).si();
        const Interference& interference = prices_.cluster().interference;
        if (blocking || waits) {
            const double one = end_of(once.graph, once.costs);
            const Run twice = stamped(plan, phase, rank, 2);
            times.estimate = std::max(times.lower, end_of(twice.graph, twice.costs) - one);
            run(once.graph, device, interference, timeline_);
        } else {
            run(once.graph, device, interference, timeline_);
            times.estimate = timeline_.end.si();
        }
        times.computing = computing(once.graph);
        std::tie(times.lead, times.rest) = outside_collectives(once.graph);
        if (blocking) times.host = 0;
        return times;
    }

private:
    struct Run {
        TaskGraph graph;
        Costs costs;
    };

    Run stamped(const Plan& plan, Phase phase, int rank, int repeats) {
        Run r{ops_, {}};
        Stage stage(r.graph, {0}, {rank});
        for (int i = 0; i < repeats; ++i) stage.stamp(plan, phase);
        for (TaskId t = 0; t < r.graph.size(); ++t) {
            const GroupId group = r.graph.group_id(t);
            r.costs.duration.push_back(group != 0 ? prices_.collective(r.graph.op(t), r.graph.group(group))
                                                  : prices_.local(r.graph.op(t), phase));
            r.costs.issue.push_back(static_cast<double>(r.graph.host_calls(t)) * host_call_time(prices_.cluster()));
        }
        return r;
    }

    // What the host does while the device does not wait for it takes nothing.
    static Costs without_hosts(const Run& r) {
        Costs costs = r.costs;
        for (TaskId t = 0; t < r.graph.size(); ++t) {
            costs.issue[t] = Seconds(0);
            if (r.graph.on_host(t) && r.graph.predecessors(t).empty()) costs.duration[t] = Seconds(0);
        }
        return costs;
    }

    // Time of kernels in the last run while no collective runs.
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

    // Of the last run.
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
    Timeline timeline_;
};

struct KindTimes {
    std::array<PlanTimes, 4> passes;
    PlanTimes again;
    [[nodiscard]] double lower() const { return passes[0].lower + passes[1].lower; }
};

KindTimes kind_times(PlanPricer& pricer, const PassPlans& plans, int rank) {
    const auto time = [&](const Plan& plan, Phase phase) { return pricer.times(plan, phase, rank); };
    return {{time(plans.forward, Phase::forward), time(plans.backward, Phase::backward),
             time(plans.input_backward, Phase::backward), time(plans.weight_backward, Phase::backward)},
            time(plans.recompute, Phase::backward)};
}

void later(PlanTimes& all, const PlanTimes& one) {
    all.estimate = std::max(all.estimate, one.estimate);
    all.host = std::max(all.host, one.host);
}

// Of the ranks of an expert-parallel group: the busiest one's work bounds the step from below; each pass is estimated by
// the rank that takes longest in it, because the collectives between make the others wait.
KindTimes busiest(PlanPricer& pricer, const PassPlans& plans, int ranks) {
    KindTimes result = kind_times(pricer, plans, 0), most = result;
    for (int r = 1; r < ranks; ++r) {
        const KindTimes one = kind_times(pricer, plans, r);
        if (one.lower() > result.lower()) result = one;
        for (std::size_t i = 0; i < 4; ++i) later(most.passes[i], one.passes[i]);
        later(most.again, one.again);
    }
    for (std::size_t i = 0; i < 4; ++i) result.passes[i].estimate = most.passes[i].estimate;
    result.again.estimate = most.again.estimate;
    return result;
}

void fill(BoundShape& s, UnitKind kind, const KindTimes& times) {
    for (std::size_t i = 0; i < 4; ++i) {
        const auto pass = static_cast<Pass>(i);
        s.lower[feature::unit(kind, pass)] = times.passes[i].lower;
        s.estimate[feature::unit(kind, pass)] = times.passes[i].estimate;
        s.computing[feature::unit(kind, pass)] = times.passes[i].computing;
        s.alone[feature::unit(kind, pass)] = times.passes[i].alone;
        s.lead[feature::unit(kind, pass)] = times.passes[i].lead;
        s.rest[feature::unit(kind, pass)] = times.passes[i].rest;
        if (kind > UnitKind::experts) continue;
        s.lower[feature::host(kind, pass)] = s.estimate[feature::host(kind, pass)] = times.passes[i].host;
    }
    if (kind > UnitKind::experts) return;
    s.lower[feature::again(kind)] = times.again.lower;
    s.estimate[feature::again(kind)] = times.again.estimate;
    s.computing[feature::again(kind)] = times.again.computing;
    s.alone[feature::again(kind)] = times.again.alone;
    s.lead[feature::again(kind)] = times.again.lead;
    s.lower[feature::host_again(kind)] = s.estimate[feature::host_again(kind)] = times.again.host;
}

void fill_weights(BoundShape& s, const LayerContext& c) {
    const Workload& w = c.experiment.workload;
    std::array<std::set<Matrix>, 4> matrices;
    std::array<bool, 2> met{};
    for (int l = 0; l < w.layers; ++l) {
        const std::size_t kind = has_experts(w, l) ? 1 : 0;
        if (std::exchange(met[kind], true)) continue;
        s.weights[kind] = layer_weights(c, l);
        for (const Matrix& matrix : layer_matrices(c, l))
            for (std::size_t there = 0; there < 4; ++there)
                if (there >> kind & 1) matrices[there].insert(matrix);
    }
    for (std::size_t there = 0; there < 4; ++there)
        for (const Matrix& matrix : matrices[there]) {
            s.matrices[there].sum += matrix.elements();
            s.matrices[there].largest = std::max(s.matrices[there].largest, matrix.elements());
        }
    s.weights[static_cast<std::size_t>(UnitKind::embedding)] = embedding_weights(c);
}

}  // namespace

BoundShape bound_shape(const Experiment& experiment, const Routing& routing, OpPrices& prices) {
    Experiment e = experiment;
    e.parallelism.schedule = Schedule::zb_h1;  // plans of split backwards too
    BoundShape s;
    s.shape = rank_shape(e);
    const RankGroups groups = rank_groups(e.parallelism);
    const LayerContext context{e, s.shape, groups, routing};
    TaskGraph ops(1, e.cluster.launch_blocking);
    const LayerPlans plans = layer_plans(ops, context);
    PlanPricer pricer(ops, prices);
    const int ranks = routing.counts.empty() ? 1 : e.parallelism.ep;
    fill(s, UnitKind::dense, kind_times(pricer, plans.dense, 0));
    fill(s, UnitKind::experts, busiest(pricer, plans.experts, ranks));
    fill(s, UnitKind::embedding, kind_times(pricer, plans.embedding, 0));
    fill(s, UnitKind::head, kind_times(pricer, plans.head, 0));
    s.gather = prices.collective(AllGather{s.shape.outer()}, groups.tensor);
    s.memory = unit_memory(context);
    fill_weights(s, context);
    e.parallelism.pp = 1;
    s.weights[static_cast<std::size_t>(UnitKind::head)] = head_weights(context);
    e.parallelism.pp = 2;
    s.copied_head = head_weights(context);
    return s;
}

}  // namespace stepcast
