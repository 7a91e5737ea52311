// What is known of a split before it is simulated: the closed form where it covers the workload, else only the memory.
#pragma once

#include <deque>

#include "sim/bounds/bounds.h"
#include "sim/sweep/constraints.h"

namespace stepcast {

// Of one workload on one cluster. One thread at a time.
//
// A step is ranked by its median over the draws, so that is what is bounded: the median of the bounds of all draws, as no
// median rises when a draw falls. Draws of the routing have a closed form each; noise that is drawn may shorten single tasks
// and leaves no bound but 0. The peak is that of the worst draw.
class PointEvaluator {
public:
    explicit PointEvaluator(const Experiment& base, std::shared_ptr<FoundPipelines> pipelines = std::make_shared<FoundPipelines>());

    // lower = estimate = 0 where no closed form covers the workload.
    [[nodiscard]] StepBound bound(const Parallelism& split);
    [[nodiscard]] PointFacts facts(const Parallelism& split, Bytes peak) const;
    [[nodiscard]] int ranks() const { return ranks_; }

private:
    [[nodiscard]] StepBound bound_draws(const Parallelism& split);
    [[nodiscard]] StepBound memory_alone(const Parallelism& split);

    Experiment experiment_;
    std::shared_ptr<FoundPipelines> pipelines_;
    int ranks_;
    double price_;               // of all ranks, a second
    FlopsPerSecond peak_flops_;  // of all ranks
    Flops flops_of_token_;
    bool bounded_ = true;                   // no noise is drawn
    std::deque<StepBounds> closed_forms_;  // by draw where draws have a routing each, else one; empty: not covered
};

// The step as the event engine gives it: the median over the experiment's draws, what every ranking of a sweep goes by.
Seconds simulated_step(const Experiment& experiment);

}  // namespace stepcast
