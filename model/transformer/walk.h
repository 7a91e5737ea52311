// The order in which the slots of a schedule are written: one walk for the graph of a step and for
// the closed forms of a sweep.
#pragma once

#include <stdexcept>
#include <string>

#include "model/base/lists.h"
#include "model/transformer/known_schedules.h"

namespace stepcast {

// Visits the slots of every stage in its order, each as soon as `visit` takes it. visit(stage,
// position) returns how many slots it took from this position on; 0 if what they wait for was not
// visited yet. After every round over the stages, between(positions) gets the next position of each
// stage, and returns whether it did anything that a slot may have waited for. Throws
// std::logic_error if slots wait for each other.
template <class Visit, class Between>
void walk_schedule(const std::vector<Order>& orders, const Visit& visit, const Between& between) {
    std::vector<std::size_t> next(orders.size());
    for (bool moved = true; moved;) {
        moved = false;
        for (const std::size_t s : indices_of(orders))
            while (next[s] < orders[s].size()) {
                const std::size_t taken = visit(s, next[s]);
                if (taken == 0) break;
                next[s] += taken;
                moved = true;
            }
        moved = between(next) || moved;
    }
    for (const std::size_t s : indices_of(orders))
        if (next[s] < orders[s].size())
            throw std::logic_error("walk_schedule: the schedule waits for itself on stage " +
                                   std::to_string(s));
}

}  // namespace stepcast
