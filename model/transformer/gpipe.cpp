// GPipe (arXiv 1811.06965): all forwards, then all backwards. Bubble (p - 1)(F + B); m
// micro-batches in flight.
#include "model/transformer/known_schedules.h"

namespace stepcast::pipeline_orders {

Order gpipe(int /*stage*/, int /*stages*/, int /*chunks*/, int micro_batches) {
    Order order;
    for (int m = 0; m < micro_batches; ++m) order.push_back({m, 0, Pass::forward});
    for (int m = 0; m < micro_batches; ++m) order.push_back({m, 0, Pass::backward});
    return order;
}

}  // namespace stepcast::pipeline_orders
