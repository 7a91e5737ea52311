// What a rank's computing kernels take, by their kind.
#pragma once

#include <array>

namespace stepcast {

// Shares of one time: of a step, or of all these kernels.
struct KernelShares {
    double products = 0, attention = 0, passes = 0;  // GEMMs, fused attention, passes over memory
    [[nodiscard]] double total() const { return products + attention + passes; }
    friend bool operator==(const KernelShares&, const KernelShares&) = default;
};
inline constexpr std::array kernel_kinds{&KernelShares::products, &KernelShares::attention,
                                         &KernelShares::passes};

}  // namespace stepcast
