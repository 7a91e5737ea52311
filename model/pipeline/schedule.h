#pragma once
#include <cstdint>
#include <vector>
#include "model/parallelism.h"
namespace stepcast {
enum class Pass : std::uint8_t { forward, backward, input_backward, weight_backward };
struct Slot {
    int micro_batch = 0, piece = 0;
    Pass pass = Pass::forward;
    friend bool operator==(const Slot&, const Slot&) = default;
};
using Order = std::vector<Slot>;
inline std::vector<Order> schedule_orders(Schedule, int stages, int, int m) {
    std::vector<Order> o(static_cast<std::size_t>(stages));
    for (int s = 0; s < stages; ++s) {
        const int w = std::min(m, stages - s - 1);
        int f = 0, b = 0;
        auto& order = o[static_cast<std::size_t>(s)];
        for (; f < w; ++f) order.push_back({f, 0, Pass::forward});
        for (; b < m; ++b) {
            if (f < m) order.push_back({f++, 0, Pass::forward});
            order.push_back({b, 0, Pass::backward});
        }
    }
    return o;
}
}
