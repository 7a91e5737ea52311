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

// Of a transformer's block.
struct BlockPass : PassWriter {
    const LayerContext& c;

    [[nodiscard]] const Workload& workload() const { return c.experiment.workload; }
    [[nodiscard]] bool drops() const { return workload().dropout > 0; }
    [[nodiscard]] bool drops_scores() const { return drops() && workload().score_dropout; }
    // Of so many elements as they lie in memory, and their dropout mask.
    [[nodiscard]] Bytes tensor(double elements) const { return elements * c.shape.element(); }
    [[nodiscard]] Bytes mask(double elements) const { return drops() ? elements * Bytes(1) : Bytes(0); }
    [[nodiscard]] double outer() const { return static_cast<double>(c.shape.outer_tokens * c.shape.hidden); }
};

}  // namespace stepcast
