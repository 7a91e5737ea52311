#include "model/block/kernels.h"

#include "model/block/fused.h"
#include "model/block/unfused.h"

namespace stepcast {
namespace {

template <typename Style>
void forward(Planner& planner, Style style, std::span<const Operator> operators) {
    for (const Operator& op : operators) std::visit([&](const auto& of) { style.forward(planner, of); }, op);
}

template <typename Style>
void backward(BackwardPlanners planners, Style style, std::span<const Operator> operators) {
    for (std::size_t i = operators.size(); i-- > 0;)
        std::visit([&](const auto& of) { style.backward(planners, of); }, operators[i]);
}

}  // namespace

void plan_forward(Planner& planner, const LayerContext& c, std::span<const Operator> operators, KernelStyle style) {
    style == KernelStyle::fused ? forward(planner, Fused(c), operators) : forward(planner, Unfused(c), operators);
}

void plan_backward(BackwardPlanners planners, const LayerContext& c, std::span<const Operator> operators,
                   KernelStyle style) {
    style == KernelStyle::fused ? backward(planners, Fused(c), operators) : backward(planners, Unfused(c), operators);
}

}  // namespace stepcast
