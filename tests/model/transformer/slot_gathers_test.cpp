#include "model/transformer/slot_gathers.h"

#include <catch2/catch.hpp>

using namespace stepcast;

static std::vector<bool> gathers_of(int pp, const Order& order) {
    SlotGathers gathers(pp, 2);
    std::vector<bool> all;
    for (const Slot& slot : order) all.push_back(gathers.next(slot));
    return all;
}

// Weights that a backward has gathered are there for the pass behind it, of either half; those of
// another chunk are not.
TEST_CASE("in a pipeline a pass gathers unless it follows a backward of its chunk") {
    const Order order{
        {.chunk = 0, .pass = Pass::forward},         {.chunk = 0, .pass = Pass::forward},
        {.chunk = 0, .pass = Pass::input_backward},  {.chunk = 1, .pass = Pass::forward},
        {.chunk = 0, .pass = Pass::weight_backward}, {.chunk = 0, .pass = Pass::forward},
        {.chunk = 0, .pass = Pass::backward},        {.chunk = 0, .pass = Pass::backward}};
    CHECK(gathers_of(2, order) == std::vector{true, true, true, true, false, false, true, false});
}

TEST_CASE("without a pipeline every pass gathers, but for weight gradients alone") {
    const Order order{{.pass = Pass::forward},
                      {.pass = Pass::input_backward},
                      {.pass = Pass::weight_backward},
                      {.pass = Pass::forward}};
    CHECK(gathers_of(1, order) == std::vector{true, true, false, true});
}
