// Element-wise operations as a framework runs them that fuses nothing: one kernel each, with the bytes of an element that it
// reads and writes. `matrix` is the width of what goes into and out of matrix products, `wide` that of norms, residuals and
// softmax, which automatic casting keeps in fp32. Counted from the operators that PyTorch's automatic differentiation calls
// (torch.cuda.amp's lists say which of them run in fp32).
#pragma once

#include "model/transformer/layer.h"

namespace stepcast {

class Operations {
public:
    Operations(Planner& planner, const LayerContext& context);

    void pass(std::string_view name, double elements, Bytes read, Bytes written, float kernels = 1) {
        planner_.compute(name, MemoryPass{elements * read, elements * written}, kernels);
    }
    void narrow(double elements);  // from wide to matrix; nothing where they are the same
    void widen(double elements);

    void norm(std::string_view name);
    void norm_backward(std::string_view name);  // and the sum with the residual's gradient
    void residual();                            // dropout of a block's result, then the sum
    void residual_backward();
    void activation();
    void activation_backward();

    // With automatic casting the weight is cast once a step, and its gradient back.
    void linear(const Linear& linear);
    Planner& planner() { return planner_; }

    [[nodiscard]] double outer() const;  // elements of a tensor tokens x hidden
    [[nodiscard]] double inner() const;  // tokens x ffn
    const Bytes matrix, wide, mask;

private:
    void gelu_steps();
    void gelu_steps_backward();

    Planner& planner_;
    const LayerContext& context_;
};

// dx, dW with its cast, and where the layer has one the sum over tokens for the bias.
void plan_unfused_linear_backward(BackwardPlanners planners, const LayerContext& context, const Linear& linear,
                                  bool bias);

void plan_unfused_attention_forward(Planner& planner, const LayerContext& context);
void plan_unfused_attention_backward(BackwardPlanners planners, const LayerContext& context);
void plan_unfused_feed_forward(Planner& planner, const LayerContext& context);
void plan_unfused_feed_forward_backward(BackwardPlanners planners, const LayerContext& context);

// Attention with relative positions over memory and sequence (Transformer-XL, arXiv 1901.02860, section 3.3).
void plan_relative_attention_forward(Planner& planner, const LayerContext& context);
void plan_relative_attention_backward(BackwardPlanners planners, const LayerContext& context);

}  // namespace stepcast
