// The element-wise passes of a layer, tensor by tensor; a mask of dropout is one byte an element.
#pragma once

#include "model/transformer/layer.h"

namespace stepcast {

inline Bytes mask_of(const LayerContext& c, Bytes tensor) { return tensor / c.shape.element().si(); }

inline bool drops(const LayerContext& c) { return c.experiment.workload.dropout > 0; }

// Reads x, writes y.
inline void plan_norm(Planner& planner, const LayerContext& c, std::string_view name) {
    planner.compute(name, MemoryPass{c.shape.outer(), c.shape.outer()});
}

// Reads x and dy, writes dx; the gradient of the residual branch is added: reads two, writes one.
inline void plan_norm_backward(Planner& planner, const LayerContext& c, std::string_view name) {
    const Bytes a = c.shape.outer();
    planner.compute(name, MemoryPass{2.0 * a, a}, 2);
    planner.compute("residual_backward", MemoryPass{2.0 * a, a});
}

// Adds bias and residual, with dropout between: reads both, writes the sum and the mask.
inline void plan_residual(Planner& planner, const LayerContext& c) {
    const Bytes a = c.shape.outer(), mask = drops(c) ? mask_of(c, a) : Bytes(0);
    planner.compute("residual", MemoryPass{2.0 * a, a + mask});
}

// The gradient passes the dropout (reads gradient and mask, writes) and is summed over tokens for the bias.
inline void plan_residual_backward(Planner& planner, const LayerContext& c) {
    const Bytes a = c.shape.outer();
    if (drops(c)) planner.compute("dropout_backward", MemoryPass{a + mask_of(c, a), a});
    if (c.experiment.workload.linear_bias) planner.compute("bias_gradient", MemoryPass{a, Bytes(0)});
}

// Gradients of one input that several products read: each further one is added.
inline void plan_gradient_sum(Planner& planner, const LayerContext& c, int further) {
    const Bytes whole = c.shape.inner(c.shape.hidden);
    planner.compute("input_gradient_sum", MemoryPass{2.0 * further * whole, static_cast<double>(further) * whole},
                    static_cast<float>(further));
}

}  // namespace stepcast
