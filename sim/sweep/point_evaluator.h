// What is known of a split before it is simulated: the closed form where it covers the workload, else only the memory.
#pragma once

#include <optional>

#include "sim/bounds/bounds.h"
#include "sim/sweep/constraints.h"

namespace stepcast {

// Of one workload on one cluster. One thread at a time.
class PointEvaluator {
public:
    explicit PointEvaluator(const Experiment& base);

    // lower = estimate = 0 where no closed form covers the workload.
    [[nodiscard]] StepBound bound(const Parallelism& split);
    [[nodiscard]] PointFacts facts(const Parallelism& split, Bytes peak) const;
    [[nodiscard]] int ranks() const { return ranks_; }

private:
    Experiment experiment_;
    int ranks_;
    double price_;               // of all ranks, a second
    FlopsPerSecond peak_flops_;  // of all ranks
    Flops flops_of_token_;
    std::optional<StepBounds> closed_form_;
};

// The step as the event engine gives it, without jitter; what every ranking of a sweep goes by.
Seconds simulated_step(const Experiment& experiment);

}  // namespace stepcast
