#include <catch2/catch.hpp>

#include "model/units.h"

using namespace stepcast;
using namespace stepcast::literals;

// 312 TFLOP at 312 TFLOP/s takes 1 s; 9 GB at 900 GB/s takes 10 ms.
TEST_CASE("dividing an amount by a rate gives a time") {
    static_assert(std::is_same_v<decltype(Flops(1) / FlopsPerSecond(1)), Seconds>);
    CHECK((Flops(312e12) / 312_TFLOPps).si() == Approx(1.0));
    CHECK((Bytes(9e9) / 900_GBps).si() == Approx(0.010));
}
