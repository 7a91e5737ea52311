#include "model/block/kernels.h"

#include "model/block/ends.h"
#include "model/block/fused.h"
#include "model/block/fused_attention.h"
#include "model/block/fused_experts.h"
#include "model/block/unfused.h"

namespace stepcast {
namespace {

template <typename... Rules>
struct Style : Rules... {
    using Rules::operator()...;
};

void write(const BlockPass& pass, std::span<const Operator> operators, KernelStyle style) {
    const ExpertRows rows = pass.w.moe.experts > 0 ? expert_rows(pass.c) : ExpertRows{};
    const FusedExperts experts{pass, rows};
    const Style fused{Fused{pass, rows}, FusedAttention{pass}, SharedPasses{pass}, experts, Ends{pass}};
    const Style unfused{Unfused{pass}, SharedPasses{pass}, experts, Ends{pass}};
    for (std::size_t i = 0; i < operators.size(); ++i) {
        const Operator& op = operators[pass.ahead != nullptr ? i : operators.size() - 1 - i];
        style == KernelStyle::fused ? std::visit(fused, op) : std::visit(unfused, op);
    }
}

}  // namespace

void plan_forward(Planner& planner, const LayerContext& c, std::span<const Operator> operators, KernelStyle style) {
    write({{&planner, nullptr}, {c}}, operators, style);
}

void plan_backward(BackwardPlanners planners, const LayerContext& c, std::span<const Operator> operators, KernelStyle style) {
    write({{nullptr, &planners}, {c}}, operators, style);
}

}  // namespace stepcast
