#include <catch2/catch.hpp>

#include <cmath>
#include <vector>

#include "exec/execute.h"

using namespace stepcast;

TEST_CASE("five samples say nothing about their median, six do") {
    CHECK(std::isinf(median_uncertainty(std::vector<double>(5, 1.0))));
    CHECK(median_uncertainty(std::vector<double>(6, 1.0)) == 0);
}

TEST_CASE("the interval of the median comes from order statistics") {
    // 1 .. 25: (25 -+ 1.96 * 5) / 2 = 7.6 and 17.4, so the sorted samples at 7 and 18 (from 0): 8
    // and 19; median 13.
    std::vector<double> samples;
    for (int i = 25; i > 0; --i) samples.push_back(i);
    CHECK(median_uncertainty(samples) == Approx(0.5 * (19 - 8) / 13.0));
}

TEST_CASE("one outlier among many does not widen it") {
    std::vector<double> samples(25, 2.0);
    samples.back() = 1000;
    CHECK(median_uncertainty(samples) == 0);
}
