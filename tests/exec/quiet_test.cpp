#include <catch2/catch.hpp>

#include "exec/quiet.h"

using namespace stepcast;

TEST_CASE("a sample counts from 97 % of a core on") {
    CHECK(accepts(0.97));
    CHECK_FALSE(accepts(0.969));
}

TEST_CASE("a machine is quiet up to 30 % of rejected samples and down to 95 % idle") {
    const std::vector<double> three_of_ten{1, 1, 1, 1, 1, 1, 1, 0.9, 0.9, 0.9};
    const std::vector<double> four_of_ten{1, 1, 1, 1, 1, 1, 0.9, 0.9, 0.9, 0.9};
    CHECK(quiet_doubts(0.95, three_of_ten).empty());
    CHECK(quiet_doubts(1, four_of_ten) ==
          std::vector<std::string>{
              "busy: 4 of 10 steps had a rank off its core for more than 3 % of the time"});
    CHECK(quiet_doubts(0.5, three_of_ten).size() == 1);
    CHECK(quiet_doubts(1, {}).empty());
}

TEST_CASE("samples are repeated for rejected ones, bounded by count and by time") {
    const RetryLimits limits{3, Seconds(10)};
    // not yet as many as asked for
    CHECK(wants_another(5, {4, 0, false, Seconds(100)}, limits));
    CHECK_FALSE(wants_another(5, {5, 5, false, Seconds(1)}, limits));  // enough
    // whose median is not known well
    CHECK(wants_another(5, {5, 5, true, Seconds(1)}, limits));
    CHECK(wants_another(5, {5, 4, false, Seconds(1)}, limits));        // one was rejected
    CHECK_FALSE(wants_another(5, {8, 4, true, Seconds(1)}, limits));   // three extra ones taken
    CHECK_FALSE(wants_another(5, {5, 4, true, Seconds(10)}, limits));  // too late
}
