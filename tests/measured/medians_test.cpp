#include <catch2/catch.hpp>

#include <stdexcept>

#include "measured/medians.h"
#include "model/records/measurement.h"
#include "tests/graphs.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::graphs;
using namespace stepcast::literals;

namespace {

// One task of a step on two ranks; rank 1 takes twice as long.
TaskGraph sum_of_two() {
    TaskGraph graph(2);
    graph.add("sum", Phase::forward, AllReduce{8_B}, {collective(0), collective(1)}, {});
    return graph;
}

void add_step(Measurement& m, double length, bool accepted) {
    m.steps.push_back(
        {{Seconds(length), Seconds(length / 2), Seconds(length / 2), 0_s, 0_s}, accepted, 1});
    m.traces.push_back({Trace::Origin::executed,
                        {{0, collective(0), 1_s, Seconds(1 + length / 2)},
                         {0, collective(1), 1_s, Seconds(1 + length)}}});
}

}  // namespace

// For 1 2 3 4 the median lies halfway between 2 and 3; a tenth of the way along 3 gaps is 1.3.
TEST_CASE("quantiles interpolate between samples") {
    CHECK(median({4, 1, 3, 2}) == 2.5);
    CHECK(median({5, 1, 9}) == 5);
    CHECK(quantile({4, 1, 3, 2}, 0.1) == Approx(1.3));
    CHECK(quantile({4, 1, 3, 2}, 0) == 1);
    CHECK(quantile({4, 1, 3, 2}, 1) == 4);
    CHECK_THROWS_AS(median({}), std::logic_error);
    CHECK_THROWS_AS(quantile({1}, 1.5), std::logic_error);
}

// The accepted steps 2, 4 and 10 give 4. The rejected 100 does not count.
TEST_CASE("medians are over accepted steps") {
    Measurement m;
    for (const double length : {4.0, 2.0, 10.0}) add_step(m, length, true);
    add_step(m, 100, false);
    CHECK(median_times(m) == StepTimes{4_s, 2_s, 2_s, 0_s, 0_s});
    CHECK(median_durations(sum_of_two(), m) == std::vector{4_s});
}

// Rank 0 takes 3, rank 1 takes 1, in this order.
TEST_CASE("a task took as long as on the rank where it took longest") {
    Measurement m;
    add_step(m, 1, true);
    m.traces[0].spans[0].finish = 4_s;
    CHECK(median_durations(sum_of_two(), m) == std::vector{3_s});
}

// The mean of 2 and 4.
TEST_CASE("an even number of steps has the mean of the middle two") {
    Measurement m;
    for (const double length : {4.0, 2.0}) add_step(m, length, true);
    CHECK(median_times(m).step == 3_s);
}

TEST_CASE("when no step was accepted all count") {
    Measurement m;
    for (const double length : {6.0, 2.0, 4.0}) add_step(m, length, false);
    CHECK(median_times(m).step == 4_s);
    CHECK(median_durations(sum_of_two(), m) == std::vector{4_s});
}

TEST_CASE("a measurement without steps has no median") {
    CHECK_THROWS_AS(median_times(Measurement{}), std::logic_error);
    CHECK_THROWS_AS(median_durations(sum_of_two(), Measurement{}), std::logic_error);
}
