// 1F1B (PipeDream-Flush, arXiv 2006.09503): stage s of p runs p - 1 - s forwards ahead, then one forward and one backward
// in turn. The bubble is GPipe's, (p - 1)(F + B); but min(m, p - s) micro-batches are in flight.
#include <algorithm>

#include "model/pipeline/orders.h"

namespace stepcast::pipeline {

std::vector<Order> one_f_one_b(int stages, int micro_batches) {
    std::vector<Order> orders;
    for (int stage = 0; stage < stages; ++stage) {
        const int ahead = std::min(stages - 1 - stage, micro_batches);
        Order order;
        for (int m = 0; m < ahead; ++m) order.push_back({m, 0, Pass::forward});
        for (int m = 0; m < micro_batches; ++m) {
            if (ahead + m < micro_batches) order.push_back({ahead + m, 0, Pass::forward});
            order.push_back({m, 0, Pass::backward});
        }
        orders.push_back(std::move(order));
    }
    return orders;
}

}  // namespace stepcast::pipeline
