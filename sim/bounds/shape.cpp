#include "sim/bounds/shape.h"

#include <algorithm>
#include <utility>

#include "model/base/numbers.h"
#include "model/transformer/counts.h"
#include "model/transformer/layer_plans.h"
#include "model/transformer/plan.h"
#include "model/transformer/stage.h"
#include "sim/bounds/op_prices.h"
#include "sim/bounds/plan_pricer.h"

namespace stepcast {

namespace {

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

BoundShape bound_shape(Experiment& e, const Routing& routing) {
    e.parallelism.schedule = Schedule::zb_h1;  // the schedules share a shape
    BoundShape s;
    s.routing = routing;
    s.shape = rank_shape(e);
    const RankGroups groups = rank_groups(e);
    const LayerContext context{e, s.shape, groups, routing};
    const int stages = std::exchange(e.parallelism.pp, 2);
    s.copied_head = head_weights(context);
    e.parallelism.pp = 1;
    s.units = unit_memory(context);
    e.parallelism.pp = stages;
    return s;
}

void add_times(BoundShape& s, Experiment& e, OpPrices& prices) {
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
