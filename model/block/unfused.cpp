#include "model/block/unfused.h"

#include "model/block/linear.h"

namespace stepcast {

Unfused::Unfused(const LayerContext& c)
    : c_(c),
      fused_(c),
      matrix_(c.shape.element()),
      wide_(c.experiment.workload.autocast ? size_of(Dtype::fp32) : c.shape.element()),
      mask_(c.experiment.workload.dropout > 0 ? Bytes(1) : Bytes(0)) {}

double Unfused::outer() const { return static_cast<double>(c_.shape.tokens * c_.shape.hidden); }

void Unfused::narrow(Planner& planner, double elements) const {
    if (wide_ != matrix_) pass(planner, "cast", elements, wide_, matrix_);
}
void Unfused::widen(Planner& planner, double elements) const {
    if (wide_ != matrix_) pass(planner, "cast", elements, matrix_, wide_);
}

// With automatic casting the weight is cast once a step, and its gradient back. A bias is a sum over tokens.
void Unfused::forward(Planner& planner, const Linear& op) const {
    narrow(planner, static_cast<double>(op.in.rank * op.out.rank));
    plan_linear(planner, op);
}
void Unfused::backward(BackwardPlanners b, const Linear& op) const {
    if (!op.constant_input) plan_input_gradient(b.inputs, op);
    plan_weight_gradient(b.weights, op, c_.experiment);
    if (op.constant_input) return;
    widen(b.weights, static_cast<double>(op.in.rank * op.out.rank));
    if (op.bias) pass(b.weights, "bias_gradient", static_cast<double>(op.tokens * op.out.rank), matrix_, Bytes(0));
}

void Unfused::backward(BackwardPlanners b, const Fork& op) const {
    const auto further = static_cast<float>(op.readers - 1);
    pass(b.inputs, op.sum, further * op.elements, 2.0 * wide_, wide_, further);
}

// One kernel for dx, one for the gradients of scale and shift.
void Unfused::forward(Planner& planner, const Normalize& op) const {
    pass(planner, op.name, static_cast<double>(op.rows * op.width), wide_, wide_);
}
void Unfused::backward(BackwardPlanners b, const Normalize& op) const {
    pass(b.inputs, backward_name(op.name), static_cast<double>(op.rows * op.width), 4.0 * wide_, wide_, 2);
}

// Dropout of a block's result, then the sum.
void Unfused::forward(Planner& planner, const Residual&) const {
    if (drops()) pass(planner, "dropout", outer(), matrix_, matrix_ + mask_);
    pass(planner, "residual", outer(), matrix_ + wide_, wide_);
}
void Unfused::backward(BackwardPlanners b, const Residual&) const {
    narrow(b.inputs, outer());
    if (drops()) pass(b.inputs, "dropout_backward", outer(), matrix_ + mask_, matrix_);
}

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): half of x, cube, factor, sum, factor, tanh, one more, product.
void Unfused::gelu_steps(Planner& planner, double inner) const {
    pass(planner, "activation", inner, matrix_, matrix_);
    widen(planner, inner);
    pass(planner, "activation", inner, 2.0 * wide_, 2.0 * wide_, 2);
    pass(planner, "activation", inner, matrix_ + wide_, wide_);
    pass(planner, "activation", inner, 3.0 * wide_, 3.0 * wide_, 3);
    pass(planner, "activation", inner, matrix_ + wide_, wide_);
    narrow(planner, inner);
}

// Product: gradients of half x and of the rest; tanh; factor; the sum's branch to x; factor; cube (power, factor,
// product); half; and x's three gradients summed.
void Unfused::gelu_steps_backward(Planner& planner, double inner) const {
    widen(planner, inner);
    pass(planner, "activation_backward", inner, 3.0 * wide_ + matrix_, 2.0 * wide_, 2);
    narrow(planner, inner);
    pass(planner, "activation_backward", inner, 2.0 * wide_, wide_);
    pass(planner, "activation_backward", inner, wide_, wide_);
    narrow(planner, inner);
    pass(planner, "activation_backward", inner, 5.0 * wide_, 4.0 * wide_, 4);
    narrow(planner, inner);
    pass(planner, "activation_backward", inner, 5.0 * matrix_, 3.0 * matrix_, 3);
}

void Unfused::forward(Planner& planner, const Activate& op) const {
    const double inner = static_cast<double>(c_.shape.tokens * op.width.rank);
    if (workload().activation == Activation::gelu_steps)
        gelu_steps(planner, inner);
    else
        pass(planner, "activation", inner, matrix_, matrix_);
    if (workload().inner_dropout) pass(planner, "dropout", inner, matrix_, matrix_ + mask_);
}
void Unfused::backward(BackwardPlanners b, const Activate& op) const {
    const double inner = static_cast<double>(c_.shape.tokens * op.width.rank);
    if (workload().inner_dropout) pass(b.inputs, "dropout_backward", inner, matrix_ + mask_, matrix_);
    if (workload().activation == Activation::gelu_steps)
        gelu_steps_backward(b.inputs, inner);
    else
        pass(b.inputs, "activation_backward", inner, 2.0 * matrix_, matrix_);
}

// Two scores a token, where an answer begins and ends; the loss is over positions.
void Unfused::forward(Planner& planner, const SpanLoss&) const {
    const Bytes both = static_cast<double>(2 * c_.shape.tokens) * wide_;
    planner.compute("loss", MemoryPass{both, both}, 12);
}
void Unfused::backward(BackwardPlanners b, const SpanLoss&) const {
    const Bytes both = static_cast<double>(2 * c_.shape.tokens) * wide_;
    b.inputs.compute("loss_backward", MemoryPass{2.0 * both, both}, 12);
}

}  // namespace stepcast
