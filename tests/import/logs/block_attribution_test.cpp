#include "import/logs/block_attribution.h"

#include <catch2/catch.hpp>

using namespace stepcast;

namespace {
using Totals = std::vector<BlockTotals>;
}

TEST_CASE("each rank gets the blocks it was seen with") {
    const StepTrace step{{{8, 2}, {10, 3}}, {{0, 10}, {1, 8}}, {}};
    CHECK(assign_blocks({step}, 2).at(0) == Totals{{10, 3}, {8, 2}});
}

TEST_CASE("two ranks with one block count but different remote blocks are not told apart") {
    const StepTrace step{{{8, 2}, {8, 3}}, {{0, 8}, {1, 8}}, {}};
    CHECK(assign_blocks({step}, 2).at(0).empty());
    const StepTrace same{{{8, 2}, {8, 2}}, {{0, 8}, {1, 8}}, {}};
    CHECK(assign_blocks({same}, 2).at(0) == Totals{{8, 2}, {8, 2}});
}

TEST_CASE("a torn step borrows only an undisputed assignment of the same blocks") {
    const StepTrace whole{{{8, 2}, {10, 3}}, {{0, 10}, {1, 8}}, {}};
    const StepTrace torn{{{10, 3}, {8, 2}}, {{1, 10}}, {}};
    const StepTrace swapped{{{8, 2}, {10, 3}}, {{0, 8}, {1, 10}}, {}};
    const StepTrace other{{{7, 2}, {10, 3}}, {}, {}};
    CHECK(assign_blocks({whole, torn, other}, 2).at(1) == Totals{{10, 3}, {8, 2}});
    CHECK(assign_blocks({whole, torn, other}, 2).at(2).empty());
    CHECK(assign_blocks({whole, torn, swapped}, 2).at(1).empty());
}

TEST_CASE("the steady blocks are those of most steady steps") {
    // Of 10 steps 3 .. 9 are steady; 4 of these agree on the second assignment.
    const Totals a{{1, 0}}, b{{2, 0}};
    const std::vector<Totals> steps{a, a, a, a, a, {}, b, b, b, b};
    const auto steady = steady_blocks(steps);
    REQUIRE(steady);
    CHECK(steady->totals == b);
    CHECK(steady->agreeing == 4);
    CHECK(steady->steps == 7);
    CHECK_FALSE(steady_blocks({{}, {}}));
}

// 41/244 = 0.16803278.. prints as 0.168033.
TEST_CASE("a printed share names a rank only when one rank has it") {
    CHECK(rank_of_ratio({{288, 77}, {244, 41}}, 0.168033) == 1);
    CHECK(rank_of_ratio({{288, 77}, {244, 41}}, 0.168035) == std::nullopt);
    CHECK(rank_of_ratio({{100, 25}, {200, 50}}, 0.25) == std::nullopt);
}
