// Feed-forward block: norm, up projection (two side by side when gated), activation, down projection, residual.
// Activation: GELU reads and writes the inner width once; a gated one reads two and writes one. Backward reads the
// activation's inputs and the gradient and writes the gradients of its inputs.
// Without fused_projections gate and up are products of their own, the activation of the gate and its product with the other
// passes of their own (read one, write one; read two, write one), and the two gradients of the input are added.
#include "model/transformer/passes.h"
#include "model/transformer/tensor_parallel.h"

namespace stepcast {
namespace {

bool is_separate(const LayerContext& c) {
    return c.experiment.workload.gated && !c.experiment.workload.fused_projections;
}

// Inner widths that the up projection makes at once.
long widths(const LayerContext& c) { return c.experiment.workload.gated && !is_separate(c) ? 2 : 1; }

Linear up(const LayerContext& c) {
    return {"ffn_up", c.shape.tokens, widths(c) * c.shape.ffn, c.shape.hidden, c.shape.matrix};
}
Linear gate(const LayerContext& c) { return {"ffn_gate", c.shape.tokens, c.shape.ffn, c.shape.hidden, c.shape.matrix}; }
Linear down(const LayerContext& c) { return {"ffn_down", c.shape.tokens, c.shape.hidden, c.shape.ffn, c.shape.matrix}; }

void plan_gate_product(Planner& planner, const LayerContext& c) {
    const Bytes inner = c.shape.inner(c.shape.ffn);
    if (is_separate(c)) planner.compute("gate_product", MemoryPass{2.0 * inner, inner});
}

}  // namespace

void plan_feed_forward_start(Planner& planner, const LayerContext& c) {
    const Bytes inner = c.shape.inner(c.shape.ffn);
    plan_norm(planner, c, "ffn_norm");
    plan_column_forward(planner, c, is_separate(c) ? gate(c) : up(c));
    planner.compute("activation", MemoryPass{static_cast<double>(widths(c)) * inner, inner});
    if (is_separate(c)) plan_linear(planner, up(c));
}

void plan_feed_forward_rest(Planner& planner, const LayerContext& c) {
    plan_gate_product(planner, c);
    plan_row_forward(planner, c, down(c));
    plan_residual(planner, c);
}

void plan_feed_forward(Planner& planner, const LayerContext& c) {
    plan_feed_forward_start(planner, c);
    plan_feed_forward_rest(planner, c);
}

void plan_feed_forward_again(Planner& planner, const LayerContext& c) {
    plan_feed_forward_start(planner, c);
    if (c.experiment.parallelism.recompute_stops_early)
        plan_gate_product(planner, c);
    else
        plan_feed_forward_rest(planner, c);
}

void plan_feed_forward_rest_backward(BackwardPlanners b, const LayerContext& c) {
    const Bytes inner = c.shape.inner(c.shape.ffn);
    plan_residual_backward(b.inputs, c);
    plan_row_backward(b, c, down(c));
    if (is_separate(c)) b.inputs.compute("gate_product_backward", MemoryPass{3.0 * inner, 2.0 * inner}, 2);
}

void plan_feed_forward_start_backward(BackwardPlanners b, const LayerContext& c) {
    const Bytes inner = c.shape.inner(c.shape.ffn), inputs = static_cast<double>(widths(c)) * inner;
    if (is_separate(c)) {
        plan_input_gradient(b.inputs, up(c));
        plan_weight_gradient(b.weights, up(c), c.experiment);
    }
    b.inputs.compute("activation_backward", MemoryPass{inputs + inner, inputs});
    if (c.experiment.workload.linear_bias) b.inputs.compute("bias_gradient", MemoryPass{inputs, Bytes(0)});
    plan_column_backward(b, c, is_separate(c) ? gate(c) : up(c));
    if (is_separate(c)) plan_gradient_sum(b.inputs, c, 1);
    plan_norm_backward(b.inputs, c, "ffn_norm_backward");
}

void plan_feed_forward_backward(BackwardPlanners b, const LayerContext& c) {
    plan_feed_forward_rest_backward(b, c);
    plan_feed_forward_start_backward(b, c);
}

}  // namespace stepcast
