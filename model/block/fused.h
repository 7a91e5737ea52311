// Kernels as training libraries fuse them. Element-wise passes are counted tensor by tensor (Korthikanti et al., arXiv
// 2205.05198, section 4 lists them); A = outer tokens x hidden elements; a mask of dropout is one byte an element.
#pragma once

#include <optional>
#include <vector>

#include "model/block/operators.h"
#include "model/graph/op_kinds.h"
#include "model/transformer/layer.h"

namespace stepcast {

// Who computes which slots in a layer with experts, on one rank.
struct ExpertRows {
    long ranks = 1;     // expert-parallel
    long tokens = 0;    // that this rank routes
    long slots = 0;     // that it sends: tokens x top_k, or what their experts' capacity makes of them
    bool balanced = true;  // no drawn or recorded routing counts
    long gathered = 1;  // tensor-parallel ranks whose slots an expert sees
    Group all_to_all, tensor;
    std::vector<std::vector<long>> rows;  // of each local expert, by expert-parallel rank; one entry when balanced
    [[nodiscard]] long most() const;      // of one rank
};
ExpertRows expert_rows(const LayerContext& context);

// dispatch_once: tokens that a rank receives when each comes once, over the slots that they stand for; of one node, that
// share of the slots' bytes which comes from others.
double once_over_slots(const Moe& moe, long places);

class Fused {
public:
    explicit Fused(const LayerContext& context) : c_(context) {
        if (c_.experiment.workload.moe.experts > 0) experts_ = expert_rows(context);
    }

    void forward(Planner& planner, const Linear& op) const;
    void backward(BackwardPlanners planners, const Linear& op) const;
    void forward(Planner&, const Fork&) const {}
    void backward(BackwardPlanners planners, const Fork& op) const;
    void forward(Planner& planner, const Normalize& op) const;
    void backward(BackwardPlanners planners, const Normalize& op) const;
    void forward(Planner&, const Cast&) const {}
    void backward(BackwardPlanners, const Cast&) const {}
    void forward(Planner& planner, const Activate& op) const;
    void backward(BackwardPlanners planners, const Activate& op) const;
    void forward(Planner& planner, const Elementwise& op) const;
    void backward(BackwardPlanners planners, const Elementwise& op) const;
    void forward(Planner& planner, const Residual& op) const;
    void backward(BackwardPlanners planners, const Residual& op) const;
    void forward(Planner& planner, const Scan& op) const;
    void backward(BackwardPlanners planners, const Scan& op) const;

    // fused_attention.cpp
    void forward(Planner& planner, const HeadLayout& op) const;
    void backward(BackwardPlanners planners, const HeadLayout& op) const;
    void forward(Planner& planner, const Attend& op) const;
    void backward(BackwardPlanners planners, const Attend& op) const;

    // fused_experts.cpp
    void forward(Planner& planner, const Route& op) const;
    void backward(BackwardPlanners planners, const Route& op) const;
    void forward(Planner& planner, const ToExperts& op) const;
    void backward(BackwardPlanners planners, const ToExperts& op) const;
    void forward(Planner& planner, const GroupedLinear& op) const;
    void backward(BackwardPlanners planners, const GroupedLinear& op) const;
    void forward(Planner& planner, const FromExperts& op) const;
    void backward(BackwardPlanners planners, const FromExperts& op) const;
    void forward(Planner& planner, const AddShared& op) const;
    void backward(BackwardPlanners, const AddShared&) const {}

    // ends.cpp: the same in every style
    void forward(Planner& planner, const Embed& op) const;
    void backward(BackwardPlanners planners, const Embed& op) const;
    void forward(Planner& planner, const Loss& op) const;
    void backward(BackwardPlanners planners, const Loss& op) const;

    // Known operation by operation only; check_experiment() lets none through.
    void forward(Planner&, const OneOf<WithMemory, AttendRelative, SpanLoss> auto&) const {}
    void backward(BackwardPlanners, const OneOf<WithMemory, AttendRelative, SpanLoss> auto&) const {}

private:
    [[nodiscard]] const Workload& workload() const { return c_.experiment.workload; }
    [[nodiscard]] bool drops() const { return workload().dropout > 0; }
    [[nodiscard]] bool drops_scores() const { return drops() && workload().score_dropout; }
    // Of so many elements as they lie in memory, and their dropout mask.
    [[nodiscard]] Bytes tensor(double elements) const { return elements * c_.shape.element(); }
    [[nodiscard]] Bytes mask(double elements) const { return drops() ? elements * Bytes(1) : Bytes(0); }
    [[nodiscard]] double outer() const { return static_cast<double>(c_.shape.outer_tokens * c_.shape.hidden); }
    [[nodiscard]] Bytes inner(const Activate& op) const;
    [[nodiscard]] bool in_products(const Activate& op) const;

    void scan_products(Planner& planner, const Scan& op) const;

    // fused_attention.cpp
    [[nodiscard]] Bytes scores(const Attend& op) const;
    [[nodiscard]] Attention one_kernel(const Attend& op, bool backward) const;
    void scores_forward(Planner& planner, const Attend& op) const;
    void scores_backward(Planner& planner, const Attend& op) const;
    template <typename Work>
    void with_context(Planner& planner, const Attend& op, bool backward, Work work) const;

    // fused_experts.cpp
    [[nodiscard]] Bytes rows(long width) const;
    [[nodiscard]] Bytes slots() const;
    [[nodiscard]] Bytes choices() const;
    void all_to_all(Planner& planner, bool back) const;
    [[nodiscard]] bool permutes() const;
    void sort(Planner& planner, bool back) const;
    void counts(Planner& planner, bool back) const;
    void to_experts(Planner& planner) const;
    void from_experts(Planner& planner) const;
    struct GroupedKind {
        bool weight_gradient = false, arrived = false;  // arrived: what it reads came from other ranks
    };
    void grouped(Planner& planner, std::string_view name, long n, long k, GroupedKind kind) const;

    // ends.cpp
    [[nodiscard]] double logits() const;
    void loss(Planner& planner) const;
    void slices_backward(Planner& planner) const;
    void table_slices_backward(Planner& planner, Bytes table) const;

    const LayerContext& c_;
    std::optional<ExpertRows> experts_;
};

}  // namespace stepcast
