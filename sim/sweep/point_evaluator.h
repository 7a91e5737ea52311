// What is known of a split before it is simulated: its closed form, or only its memory if no closed
// form covers the workload.
#pragma once

#include <deque>

#include "sim/bounds/bounds.h"
#include "sim/sweep/constraints.h"

namespace stepcast {

// For one workload on one cluster. One object is for one thread.
//
// A step ranks by its median over the draws. Its bound is the median of all draws' bounds, because
// no median rises when a draw falls. Each routing has its own closed form. Noise may shorten single
// tasks, so that its only bound is 0. The peak is that of the worst draw.
class PointEvaluator {
public:
    explicit PointEvaluator(const Experiment& base,
                            std::shared_ptr<FoundPipelines> pipelines = nullptr);

    // lower = estimate = 0 if no closed form covers the workload.
    [[nodiscard]] StepBound bound(const ParallelPlan& split) {
        (void)coarse(split);
        return refined();
    }
    // The same in steps, of which the first is cheap and the second may be left out: StepBounds.
    [[nodiscard]] StepBound coarse(const ParallelPlan& split);
    [[nodiscard]] StepBound with_data();
    [[nodiscard]] StepBound refined();
    [[nodiscard]] PointFacts facts(const ParallelPlan& split, Bytes peak) const;
    [[nodiscard]] int ranks() const { return ranks_; }

private:
    // Of all draws, of which each is bounded by `bound`.
    template <class Bound>
    [[nodiscard]] StepBound middle_of_draws(const Bound& bound);
    [[nodiscard]] StepBound memory_alone(const ParallelPlan& split);

    Experiment experiment_;
    std::shared_ptr<FoundPipelines> pipelines_;
    int ranks_;
    double price_;               // of all ranks, a second
    FlopsPerSecond peak_flops_;  // of all ranks
    Flops flops_of_token_;
    bool bounded_ = true;  // no noise is drawn
    // one for each draw if each has its own routing, else one; empty: not covered
    std::deque<StepBounds> closed_forms_;
    StepBound alone_;  // not covered: the memory of the last split
};

// The step of the event engine: the median over the experiment's draws, by which a sweep ranks.
Seconds simulated_step(const Experiment& experiment);

}  // namespace stepcast
