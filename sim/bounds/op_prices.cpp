#include "sim/bounds/op_prices.h"

#include "sim/costs/op_costs.h"

namespace stepcast {

Seconds OpPrices::local(const Op& op, Phase phase) {
    const auto* g = std::get_if<Gemm>(&op);
    if (!g) return op_time(op, phase, {}, cluster_);
    const auto [known, is_new] = gemms_.try_emplace(*g);
    if (is_new) known->second = op_time(op, phase, {}, cluster_);
    return known->second;
}

Seconds OpPrices::collective(const Op& op, const Group& group) {
    return group.size() <= 1 ? Seconds(0) : time_in_step(op, paths_.of(group), cluster_);
}

}  // namespace stepcast
