#include <catch2/catch.hpp>

#include "sim/sweep/reasons.h"
#include "sim/sweep/worker.h"

using namespace stepcast;

// 96 is in all complaints; 64 and 256 span a range that contains 128 and that 1024 widens (compared
// as numbers, not as text).
TEST_CASE("complaints that differ in numbers only are one reason with the ranges of the numbers") {
    Reasons reasons;
    count_reason(reasons, "batch: 96 is no multiple of dp x micro_batch = 256", 1);
    count_reason(reasons, "batch: 96 is no multiple of dp x micro_batch = 64", 2);
    count_reason(reasons, "batch: 96 is no multiple of dp x micro_batch = 128", 4);
    CHECK(reasons == Reasons{{"batch: 96 is no multiple of dp x micro_batch = 64..256", 7}});
    count_reason(reasons, "batch: 96 is no multiple of dp x micro_batch = 1024", 8);
    count_reason(reasons, "tp does not divide workload.heads", 3);
    count_reason(reasons, "tp does not divide workload.heads", 3);
    CHECK(reasons == Reasons{{"batch: 96 is no multiple of dp x micro_batch = 64..1024", 15},
                             {"tp does not divide workload.heads", 6}});
}

// Parts of a large sweep come in any order, and with ranges already.
TEST_CASE("ranges of reasons join whatever the order") {
    CHECK(with_ranges("tp 2..8 of 4", "tp 16 of 4") == "tp 2..16 of 4");
    CHECK(with_ranges("tp 16 of 4", "tp 2..8 of 4") == "tp 2..16 of 4");
    CHECK(with_ranges("tp 16 of 4", "pp 16 of 4").empty());
    // dots that end a text are no range
    CHECK(with_ranges("more than 3..", "more than 12..") == "more than 3..12..");
}
