#include <catch2/catch.hpp>

#include <algorithm>

#include "sim/engine/event_tree.h"
#include "tests/random_graphs.h"

using namespace stepcast;

TEST_CASE("an event tree names the earliest slot, and none when all are never") {
    EventTree tree(5);
    CHECK(tree.earliest() == EventTree::never);
    tree.set(3, 2);
    tree.set(0, 4);
    tree.set(4, 3);
    CHECK(tree.earliest() == 2);
    CHECK(tree.earliest_slot() == 3);
    tree.set(3, 5);
    CHECK(tree.earliest_slot() == 4);
    tree.set(4, EventTree::never);
    CHECK(tree.earliest_slot() == 0);
    tree.set(0, EventTree::never);
    tree.set(3, EventTree::never);
    CHECK(tree.earliest() == EventTree::never);
}

TEST_CASE("an event tree of any size agrees with a search") {
    graphs::RandomSource random(11);
    for (const int slots : {1, 2, 3, 8, 9, 100}) {
        EventTree tree(static_cast<std::size_t>(slots));
        std::vector<double> times(static_cast<std::size_t>(slots), EventTree::never);
        for (int i = 0; i < 500; ++i) {
            const auto slot = static_cast<std::uint32_t>(random.below(slots));
            times[slot] = random.one_in(4) ? EventTree::never : random.fraction();
            tree.set(slot, times[slot]);
            const double least = *std::ranges::min_element(times);
            REQUIRE(tree.earliest() == least);
            if (least != EventTree::never) REQUIRE(times[tree.earliest_slot()] == least);
        }
    }
}
