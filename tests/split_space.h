// Every way to split a transformer over the ranks of its cluster, for tests and benchmarks of whole
// spaces. Sizes go in powers of two; what changes least is outermost.
#pragma once

#include <algorithm>

#include "model/base/errors.h"
#include "model/input/check_experiment.h"
#include "model/input/split_rules.h"
#include "model/runtime_rules.h"

namespace stepcast {

namespace split_space {

template <class Call>
void vary_overlaps(ParallelPlan plan, const Call& call) {
    auto& [p, x] = plan;
    const bool sends = p.pp > 1, parts = sends && p.tp > 1 && !p.sequence_parallel,
               data = p.dp * p.cp > 1;
    for (const bool overlap_p2p : {true, false})
        for (const bool scatter : {true, false})
            for (int zero = 0; zero <= 3; ++zero)
                for (const bool overlap : {true, false})
                    for (const bool parameters : {true, false}) {
                        const bool gathers = zero == 1 || zero == 2;
                        if ((!overlap_p2p && !sends) || (!scatter && !parts) ||
                            (zero > 0 && !data) || (!overlap && !data) || (!parameters && !gathers))
                            continue;
                        x.sends = overlap_p2p;
                        x.scatter_sends = scatter;
                        p.zero = zero;
                        x.gradients = overlap ? GradientOverlap::always : GradientOverlap::never;
                        x.parameters = parameters;
                        call(plan);
                    }
}

template <class Call>
void vary_pipelines(const Experiment& base, const SplitRules& rules, ParallelPlan plan, int ranks,
                    const Call& call) {
    Parallelism& p = plan.parallelism;
    for (const SplitKey key :
         {SplitKey::tp, SplitKey::cp, SplitKey::sequence_parallel, SplitKey::micro_batch,
          SplitKey::recompute, SplitKey::recompute_layers})
        if (!rules.broken_by(key, p).empty()) return;
    for (int pp = 1; p.tp * p.cp * pp <= ranks; pp *= 2) {
        p.pp = pp;
        p.dp = ranks / (p.tp * p.cp * pp);
        if (p.global_batch % (p.dp * p.micro_batch) != 0) continue;
        for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zb_h1,
                                        Schedule::zb_v, Schedule::dualpipe})
            for (int vp = 1; vp == 1 || (schedule == Schedule::one_f_one_b && pp > 1 &&
                                         vp * pp <= base.workload.layers);
                 ++vp) {
                if (pp == 1 && schedule != Schedule::one_f_one_b) continue;
                p.schedule = schedule;
                p.vp = vp;
                for (int ep = 1; ep <= std::max(1, base.workload.moe.experts); ep *= 2) {
                    p.ep = ep;
                    bool legal = true;
                    for (const SplitKey key : {SplitKey::ep, SplitKey::dp, SplitKey::vp})
                        legal = legal && rules.broken_by(key, p).empty();
                    if (legal) vary_overlaps(plan, call);
                }
            }
    }
}

}  // namespace split_space

// The walk below knows neither layouts of stages nor passes that go by turns.
inline bool is_legal(const Experiment& e) {
    try {
        check_experiment(e);
        return true;
    } catch (const ConfigError&) {
        return false;
    }
}

// Calls with each legal ParallelPlan, everything that is not varied as in `base`.
template <class Call>
void for_each_split(const Experiment& base, const Call& call) {
    const int ranks = rank_count(base.cluster);
    const SplitRules rules(base, false);
    for (int tp = 1; tp <= ranks; tp *= 2)
        for (int cp = 1; tp * cp <= ranks; cp *= 2)
            for (const bool sequence : {false, true})
                for (const bool overlap_tp : {false, true})
                    for (int micro_batch = 1; micro_batch <= 16; micro_batch *= 2)
                        for (const Recompute recompute :
                             {Recompute::none, Recompute::selective, Recompute::full}) {
                            if (tp == 1 && (sequence || overlap_tp)) continue;
                            ParallelPlan plan = plan_of(base);
                            Parallelism& p = plan.parallelism;
                            p.tp = tp;
                            p.cp = cp;
                            p.sequence_parallel = sequence;
                            plan.exchanges.tensor =
                                overlap_tp ? TensorOverlap::always : TensorOverlap::never;
                            p.micro_batch = micro_batch;
                            p.recompute = recompute;
                            split_space::vary_pipelines(base, rules, plan, ranks, call);
                        }
}

}  // namespace stepcast
