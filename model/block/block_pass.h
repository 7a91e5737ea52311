// A pass over a block, its forward or its backward. A style has one rule for each operator, which says what both run; what is
// of the other pass is not written.
#pragma once

#include "model/block/linear.h"
#include "model/block/operators.h"
#include "model/transformer/layer.h"

namespace stepcast {

struct PassWriter {
    Planner* ahead;                // null in the backward
    const BackwardPlanners* back;  // null in the forward

    void forward(std::string_view name, Op op, float kernels = 1) const {
        if (ahead != nullptr) ahead->compute(name, std::move(op), kernels);
    }
    void backward(std::string_view name, Op op, float kernels = 1) const {
        if (back != nullptr) back->inputs.compute(name, std::move(op), kernels);
    }
    // Where this pass writes what either may run.
    [[nodiscard]] Planner& planner() const { return ahead != nullptr ? *ahead : back->inputs; }
};

// Of a transformer's block; rules of operators begin with it.
struct BlockPass : PassWriter {
    const LayerContext& c;
    const RankShape& s = c.shape;
    const Workload& w = c.experiment.workload;
    const Parallelism& p = c.experiment.parallelism;

    [[nodiscard]] bool drops() const { return w.dropout > 0; }
    [[nodiscard]] bool drops_scores() const { return drops() && w.score_dropout; }
    // Of so many elements as they lie in memory, and their dropout mask.
    [[nodiscard]] Bytes tensor(double elements) const { return elements * s.element(); }
    [[nodiscard]] Bytes mask_of(double elements) const { return drops() ? elements * Bytes(1) : Bytes(0); }
    [[nodiscard]] double outer() const { return static_cast<double>(s.outer_tokens * s.hidden); }
};

}  // namespace stepcast
