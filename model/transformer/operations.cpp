#include "model/transformer/operations.h"

namespace stepcast {

Operations::Operations(Planner& planner, const LayerContext& c)
    : matrix(c.shape.element()),
      wide(c.experiment.workload.autocast ? size_of(Dtype::fp32) : c.shape.element()),
      mask(c.experiment.workload.dropout > 0 ? Bytes(1) : Bytes(0)),
      planner_(planner),
      context_(c) {}

double Operations::outer() const { return static_cast<double>(context_.shape.tokens * context_.shape.hidden); }
double Operations::inner() const { return static_cast<double>(context_.shape.tokens * context_.shape.ffn); }

void Operations::narrow(double elements) {
    if (wide != matrix) pass("cast", elements, wide, matrix);
}
void Operations::widen(double elements) {
    if (wide != matrix) pass("cast", elements, matrix, wide);
}

void Operations::norm(std::string_view name) { pass(name, outer(), wide, wide); }

// One kernel for dx, one for the gradients of scale and shift.
void Operations::norm_backward(std::string_view name) {
    pass(name, outer(), 4.0 * wide, wide, 2);
    pass("residual_backward", outer(), 2.0 * wide, wide);
}

void Operations::residual() {
    if (mask > Bytes(0)) pass("dropout", outer(), matrix, matrix + mask);
    pass("residual", outer(), matrix + wide, wide);
}

void Operations::residual_backward() {
    narrow(outer());
    if (mask > Bytes(0)) pass("dropout_backward", outer(), matrix + mask, matrix);
}

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): half of x, cube, factor, sum, factor, tanh, one more, product.
void Operations::gelu_steps() {
    pass("activation", inner(), matrix, matrix);
    widen(inner());
    pass("activation", inner(), 2.0 * wide, 2.0 * wide, 2);
    pass("activation", inner(), matrix + wide, wide);
    pass("activation", inner(), 3.0 * wide, 3.0 * wide, 3);
    pass("activation", inner(), matrix + wide, wide);
    narrow(inner());
}

// Product: gradients of half x and of the rest; tanh; factor; the sum's branch to x; factor; cube (power, factor,
// product); half; and x's three gradients summed.
void Operations::gelu_steps_backward() {
    widen(inner());
    pass("activation_backward", inner(), 3.0 * wide + matrix, 2.0 * wide, 2);
    narrow(inner());
    pass("activation_backward", inner(), 2.0 * wide, wide);
    pass("activation_backward", inner(), wide, wide);
    narrow(inner());
    pass("activation_backward", inner(), 5.0 * wide, 4.0 * wide, 4);
    narrow(inner());
    pass("activation_backward", inner(), 5.0 * matrix, 3.0 * matrix, 3);
}

void Operations::activation() {
    const Workload& w = context_.experiment.workload;
    if (w.activation == Activation::gelu_steps)
        gelu_steps();
    else
        pass("activation", inner(), matrix, matrix);
    if (w.inner_dropout) pass("dropout", inner(), matrix, matrix + mask);
}

void Operations::activation_backward() {
    const Workload& w = context_.experiment.workload;
    if (w.inner_dropout) pass("dropout_backward", inner(), matrix + mask, matrix);
    if (w.activation == Activation::gelu_steps)
        gelu_steps_backward();
    else
        pass("activation_backward", inner(), 2.0 * matrix, matrix);
}

void Operations::linear(const Linear& l) {
    narrow(static_cast<double>(l.in * l.out));
    plan_linear(planner_, l);
}

void plan_unfused_linear_backward(BackwardPlanners b, const LayerContext& c, const Linear& l, bool bias) {
    plan_input_gradient(b.inputs, l);
    plan_weight_gradient(b.weights, l, c.experiment);
    Operations weights(b.weights, c);
    weights.widen(static_cast<double>(l.in * l.out));
    if (bias) weights.pass("bias_gradient", static_cast<double>(l.tokens * l.out), weights.matrix, Bytes(0));
}

}  // namespace stepcast
