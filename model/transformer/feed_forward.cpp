// Feed-forward block: norm, up projection (two side by side when gated), activation, down projection, residual.
// Activation: GELU reads and writes the inner width once; a gated one reads two and writes one. Backward reads the
// activation's inputs and the gradient and writes the gradients of its inputs.
#include "model/transformer/passes.h"
#include "model/transformer/tensor_parallel.h"

namespace stepcast {
namespace {

long inputs_of(const LayerContext& c) { return c.experiment.workload.gated ? 2 : 1; }

Linear up(const LayerContext& c) {
    return {"ffn_up", c.shape.tokens, inputs_of(c) * c.shape.ffn, c.shape.hidden, c.shape.matrix};
}
Linear down(const LayerContext& c) { return {"ffn_down", c.shape.tokens, c.shape.hidden, c.shape.ffn, c.shape.matrix}; }

// Up to the input of the down projection.
void plan_inner(Planner& planner, const LayerContext& c) {
    const Bytes inner = c.shape.inner(c.shape.ffn);
    plan_norm(planner, c, "ffn_norm");
    plan_column_forward(planner, c, up(c));
    planner.compute("activation", MemoryPass{static_cast<double>(inputs_of(c)) * inner, inner});
}

}  // namespace

void plan_feed_forward(Planner& planner, const LayerContext& c) {
    plan_inner(planner, c);
    plan_row_forward(planner, c, down(c));
    plan_residual(planner, c);
}

void plan_feed_forward_again(Planner& planner, const LayerContext& c) {
    if (!c.experiment.parallelism.recompute_stops_early) return plan_feed_forward(planner, c);
    plan_inner(planner, c);
}

void plan_feed_forward_backward(BackwardPlanners b, const LayerContext& c) {
    const Bytes inner = c.shape.inner(c.shape.ffn), inputs = static_cast<double>(inputs_of(c)) * inner;
    plan_residual_backward(b.inputs, c);
    plan_row_backward(b, c, down(c));
    b.inputs.compute("activation_backward", MemoryPass{inputs + inner, inputs});
    if (c.experiment.workload.linear_bias) b.inputs.compute("bias_gradient", MemoryPass{inputs, Bytes(0)});
    plan_column_backward(b, c, up(c));
    plan_norm_backward(b.inputs, c, "ffn_norm_backward");
}

}  // namespace stepcast
