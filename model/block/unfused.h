// Kernels as a framework runs them that fuses nothing: one operation each, with the bytes of an element that it reads and
// writes. `matrix` is the width of what goes into and out of matrix products, `wide` that of norms, residuals and softmax,
// which automatic casting keeps in fp32. Counted from the operators that PyTorch's automatic differentiation calls
// (torch.cuda.amp's lists say which of them run in fp32). Not tensor parallel.
#pragma once

#include "model/block/fused.h"
#include "model/graph/op_kinds.h"

namespace stepcast {

class Unfused {
public:
    explicit Unfused(const LayerContext& context);

    void forward(Planner& planner, const Linear& op) const;
    void backward(BackwardPlanners planners, const Linear& op) const;
    void forward(Planner&, const Fork&) const {}
    void backward(BackwardPlanners planners, const Fork& op) const;
    void forward(Planner& planner, const Normalize& op) const;
    void backward(BackwardPlanners planners, const Normalize& op) const;
    void forward(Planner& planner, const Cast& op) const { narrow(planner, op.elements); }
    void backward(BackwardPlanners planners, const Cast& op) const { widen(planners.inputs, op.elements); }
    void forward(Planner& planner, const Activate& op) const;
    void backward(BackwardPlanners planners, const Activate& op) const;
    void forward(Planner& planner, const Residual& op) const;
    void backward(BackwardPlanners planners, const Residual& op) const;
    void forward(Planner& planner, const SpanLoss& op) const;
    void backward(BackwardPlanners planners, const SpanLoss& op) const;

    // unfused_attention.cpp
    void forward(Planner& planner, const HeadLayout& op) const;
    void backward(BackwardPlanners planners, const HeadLayout& op) const;
    void forward(Planner& planner, const Attend& op) const;
    void backward(BackwardPlanners planners, const Attend& op) const;
    void forward(Planner& planner, const WithMemory& op) const;
    void backward(BackwardPlanners planners, const WithMemory& op) const;
    void forward(Planner& planner, const AttendRelative& op) const;
    void backward(BackwardPlanners planners, const AttendRelative& op) const;

    // The same in both styles.
    void forward(Planner& planner, const OneOf<Elementwise, Scan, Route, ToExperts, GroupedLinear, FromExperts, AddShared, Embed,
                                               Loss> auto& op) const {
        fused_.forward(planner, op);
    }
    void backward(BackwardPlanners planners, const OneOf<Elementwise, Scan, Route, ToExperts, GroupedLinear, FromExperts,
                                                         AddShared, Embed, Loss> auto& op) const {
        fused_.backward(planners, op);
    }

private:
    [[nodiscard]] const Workload& workload() const { return c_.experiment.workload; }
    void pass(Planner& planner, std::string_view name, double elements, Bytes read, Bytes written,
              float kernels = 1) const {
        planner.compute(name, MemoryPass{elements * read, elements * written}, kernels);
    }
    void narrow(Planner& planner, double elements) const;  // from wide to matrix; nothing where they are the same
    void widen(Planner& planner, double elements) const;
    [[nodiscard]] double outer() const;  // elements of a tensor tokens x hidden
    [[nodiscard]] bool drops() const { return mask_ > Bytes(0); }
    [[nodiscard]] bool drops_scores() const { return drops() && workload().score_dropout; }

    void gelu_steps(Planner& planner, double inner) const;
    void gelu_steps_backward(Planner& planner, double inner) const;

    // unfused_attention.cpp
    void softmax(Planner& planner, double scores) const;
    void softmax_backward(Planner& planner, double scores) const;

    const LayerContext& c_;
    Fused fused_;
    const Bytes matrix_, wide_, mask_;
};

}  // namespace stepcast
