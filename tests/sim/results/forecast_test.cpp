#include "sim/results/forecast.h"

#include <catch2/catch.hpp>

using namespace stepcast;

// 1 + 2 + 4 + 8 + 16 + 32 = 63, so every part counts exactly once.
TEST_CASE("the parts of a breakdown add up") {
    CHECK(total({Seconds(1), Seconds(2), Seconds(4), Seconds(8), Seconds(16), Seconds(32)}) ==
          Seconds(63));
}
