// One pass over a block: its forward or its backward. Each style has one rule per operator that
// states the kernels of both passes; the writer ignores the calls that belong to the other pass.
#pragma once

#include <algorithm>

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
    // The planner of this pass, for work that both passes run.
    [[nodiscard]] Planner& planner() const { return ahead != nullptr ? *ahead : back->inputs; }
};

// The products of a linear layer in this pass.
inline void plan_products(const PassWriter& out, const Linear& l, const Experiment& e) {
    if (out.ahead != nullptr) return plan_linear(*out.ahead, l);
    if (!l.constant_input) plan_input_gradient(out.back->inputs, l);
    plan_weight_gradient(out.back->weights, l, e);
}

// What rules for the operators of a transformer's block read.
struct BlockRules {
    const LayerContext& c;
    const RankShape& s = c.shape;
    const Workload& w = c.experiment.workload;
    const Parallelism& p = c.experiment.parallelism;
    const Runtime& r = c.experiment.runtime;

    [[nodiscard]] bool drops() const { return w.dropout > 0; }
    [[nodiscard]] bool drops_scores() const { return drops() && w.score_dropout; }
    // Bytes of a tensor with that many elements in storage type, and of its dropout mask.
    [[nodiscard]] Bytes tensor(double elements) const { return elements * s.element(); }
    [[nodiscard]] Bytes mask_of(double elements) const {
        return drops() ? elements * Bytes(1) : Bytes(0);
    }
    // Automatic casting keeps weights, norms and residuals in fp32.
    [[nodiscard]] bool casts() const { return casts_weights(c.experiment); }
    [[nodiscard]] double outer() const { return number(s.outer_tokens * s.hidden); }
};

inline bool composes(const BlockRules& of, Composed op) { return composes(of.c.experiment, op); }

// A pass over a block of a transformer; the rules for its kernels derive from it.
struct BlockPass : PassWriter, BlockRules {
    // Automatic casting: fp32 values are cast to the products' type, and their gradients back where
    // there are any.
    void cast(double elements, bool gradient = true) const {
        const Bytes narrow = tensor(elements), fp32 = elements * size_of(Dtype::fp32);
        forward("cast", MemoryPass{fp32, narrow});
        if (gradient) backward("cast", MemoryPass{narrow, fp32});
    }

    // Gradients of a bias, or of a norm's scale and shift. A kernel of their own jumps from row to
    // row.
    void column_sum(std::string_view name, Bytes read) const {
        const bool own = composes(*this, Composed::column_sums);
        backward(name, MemoryPass{read, Bytes(0),
                                  own ? MemoryPass::Access::strided : MemoryPass::Access::stream});
    }
};

}  // namespace stepcast
