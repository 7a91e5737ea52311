#include "model/block/kernels.h"

#include "model/base/lists.h"
#include "model/block/delta_rule.h"
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

}  // namespace

void plan_block(const PassWriter& out, const LayerContext& c, std::span<const Operator> operators,
                KernelStyle style) {
    const BlockPass pass{out, {c}};
    const ExpertRows rows = pass.w.moe.experts > 0 ? expert_rows(c) : ExpertRows{};
    const FusedExperts experts{pass, rows};
    const DeltaRulePasses delta{pass};
    const Style fused{Fused{pass, rows}, FusedAttention{pass}, SharedPasses{pass}, delta, experts,
                      Ends{pass}};
    const Style unfused{Unfused{pass}, SharedPasses{pass}, delta, experts, Ends{pass}};
    for (const std::size_t i : indices_of(operators)) {
        const Operator& op = operators[out.ahead != nullptr ? i : operators.size() - 1 - i];
        style == KernelStyle::fused ? std::visit(fused, op) : std::visit(unfused, op);
    }
}

}  // namespace stepcast
