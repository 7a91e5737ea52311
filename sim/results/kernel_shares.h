// What a rank's computing kernels take, by their kind, and how long its device does nothing.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace stepcast {

// Shares of one time: of a step, or of all these kernels.
struct KernelShares {
    double products = 0, attention = 0, passes = 0;  // GEMMs, fused attention, passes over memory
    [[nodiscard]] double total() const { return products + attention + passes; }
    friend bool operator==(const KernelShares&, const KernelShares&) = default;
};
inline constexpr std::array kernel_kinds{&KernelShares::products, &KernelShares::attention,
                                         &KernelShares::passes};

// Of one rank in a step. `idle`: the longest stretch in which its device does nothing, over the
// step.
struct RankUse {
    KernelShares kinds;
    std::optional<double> idle;
    friend bool operator==(const RankUse&, const RankUse&) = default;
};

// The longest stretch of begin .. end that no span (start, finish) covers, over end - begin.
inline double longest_idle(std::vector<std::pair<double, double>> spans, double begin, double end) {
    std::ranges::sort(spans);
    double longest = 0, covered = begin;
    for (const auto& [start, finish] : spans) {
        longest = std::max(longest, std::min(start, end) - covered);
        covered = std::max(covered, finish);
    }
    return end > begin ? std::max(longest, end - covered) / (end - begin) : 0;
}

}  // namespace stepcast
