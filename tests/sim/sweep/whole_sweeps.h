// Sweeps of small models, and the event engine's results for every point of them.
#pragma once

#include <string>
#include <vector>

#include "sim/sweep/sweep.h"
#include "tests/transformers.h"

namespace stepcast {

inline SweepQuestion asked(const Experiment& experiment, const std::vector<std::string>& vary,
                           const std::vector<std::string>& where = {}) {
    SweepQuestion q;
    q.experiment = experiment;
    for (const auto& text : vary) q.axes.push_back(parse_axis(text));
    q.where = parse_constraints(where);
    return q;
}

inline Experiment eight_ranks(Experiment e) {
    e.cluster.nodes = 2;
    e.parallelism.global_batch = 16;
    e.cluster.price_per_gpu_hour = 3.6;
    return e;
}

// The event engine's step of every legal point that fits, without any bound.
struct MetPoint {
    Candidate candidate;
    Seconds step;
};
inline std::vector<MetPoint> simulate_all(const SweepQuestion& q) {
    const SweepSpace space(q.experiment, q.axes);
    std::vector<MetPoint> all;
    for (std::uint64_t item = 0; item < space.item_count(); ++item) {
        const std::uint64_t number = space.base_of_item(item);
        const SweepBase base = space.base(number);
        space.visit(base, item,
                    {.legal =
                         [&](std::uint64_t inner, const ParallelPlan& split) {
                             Experiment e = base.experiment;
                             set_plan(e, split);
                             PointEvaluator evaluator(e);
                             const StepBound bound = evaluator.bound(split);
                             if (!bound.fits) return;
                             const PointFacts facts = evaluator.facts(split, bound.peak);
                             const Seconds step = simulated_step(e);
                             for (const Constraint& c : q.where)
                                 if (!holds(c, facts, step)) return;
                             all.push_back({{{number, inner},
                                             bound.lower,
                                             bound.estimate,
                                             bound.peak,
                                             facts.tokens,
                                             facts.price,
                                             evaluator.ranks(),
                                             bound.tight,
                                             wanted(q).distinct ? space.kind_of(number, split) : 0},
                                            step});
                         },
                     .illegal = [](std::string_view, std::uint64_t) {}});
    }
    return all;
}

inline std::vector<Seconds> steps_of(const std::vector<SweepRow>& rows) {
    std::vector<Seconds> steps;
    for (const SweepRow& row : rows) steps.push_back(row.step);
    return steps;
}

}  // namespace stepcast
