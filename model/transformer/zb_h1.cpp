// ZB-H1 (arXiv 2401.10241, section 2.3): 1F1B with a split backward. Stage s delays its weight
// gradients by s micro-batches, so each stage keeps min(m, p) activations, like the first stage of
// 1F1B, and the delayed weight gradients fill the drain. The bubble is (p
// - 1)(F + B - W) with B the input gradient: a third of 1F1B's if F = B = W.
#include <algorithm>

#include "model/transformer/known_schedules.h"

namespace stepcast::pipeline_orders {

Order zb_h1(int stage, int stages, int /*chunks*/, int micro_batches) {
    const int ahead = std::min(stages - 1 - stage, micro_batches);
    Order order;
    for (int m = 0; m < ahead; ++m) order.push_back({m, 0, Pass::forward});
    for (int m = 0; m < micro_batches + stage; ++m) {
        if (ahead + m < micro_batches) order.push_back({ahead + m, 0, Pass::forward});
        if (m < micro_batches) order.push_back({m, 0, Pass::input_backward});
        if (m >= stage) order.push_back({m - stage, 0, Pass::weight_backward});
    }
    return order;
}

}  // namespace stepcast::pipeline_orders
