#include "sim/sweep/incumbents.h"

#include <catch2/catch.hpp>

using namespace stepcast;

namespace {

Incumbent point(double first, double second, std::uint64_t number, std::uint64_t group = 8) {
    return {{first, second}, {0, number}, group};
}

}  // namespace

TEST_CASE("the best so many are kept by score, equal ones by number") {
    Incumbents best({.top = 2});
    CHECK_FALSE(best.excludes(point(99, 0, 9, 8)));  // room left
    for (const Incumbent& i : {point(3, 0, 1), point(2, 0, 7), point(2, 0, 5), point(4, 0, 0)})
        best.add(i);
    CHECK(best.best() == std::vector{point(2, 0, 5), point(2, 0, 7)});
    CHECK(best.excludes(point(2, 0, 8, 8)));  // an equal score with a later number
    // an equal score with an earlier number could be second
    CHECK_FALSE(best.excludes(point(2, 0, 6, 8)));
    CHECK_FALSE(best.excludes(point(1, 0, 9, 8)));
}

// (1, 5), (2, 3) and (4, 1) do not dominate each other; (2, 3) dominates (3, 3); (2, 3) with a
// higher number is an equal.
TEST_CASE("a front keeps what nothing beats in both") {
    Incumbents front({.top = 1, .front = true});
    for (const Incumbent& i : {point(3, 3, 1), point(4, 1, 2), point(1, 5, 3), point(2, 3, 4),
                               point(2, 3, 5), point(5, 5, 6)})
        front.add(i);
    CHECK(front.best() == std::vector{point(1, 5, 3), point(2, 3, 4), point(4, 1, 2)});
    CHECK(front.excludes(point(2, 4, 9, 8)));
    CHECK(front.excludes(point(2, 3, 9, 8)));
    CHECK_FALSE(front.excludes(point(2, 3, 0, 8)));
    CHECK_FALSE(front.excludes(point(1.5, 4, 9, 8)));
}

TEST_CASE("each number of ranks has a best of its own") {
    Incumbents best({.top = 1, .by_group = true});
    for (const Incumbent& i : {point(5, 0, 1, 8), point(2, 0, 2, 16), point(6, 0, 3, 8)})
        best.add(i);
    CHECK(best.best() == std::vector{point(2, 0, 2, 16)});
    CHECK(best.best_by_group().at(8) == point(5, 0, 1, 8));
    CHECK_FALSE(best.excludes(point(4, 0, 9, 8)));
    CHECK(best.excludes(point(4, 0, 9, 16)));
    CHECK_FALSE(best.excludes(point(4, 0, 9, 32)));
    Incumbents again(best.wanted());
    for (const Incumbent& i : best.all()) again.add(i);
    CHECK(again == best);
}

// Of kind 1 the better of 3 and 2 counts; of kinds 1, 2 and 3 with 2, 5 and 4 the first two are 1
// and 3.
TEST_CASE("of different kinds each has its best alone") {
    Incumbents best({.top = 2, .distinct = true});
    const auto of = [](double first, std::uint64_t number, std::uint64_t kind) {
        return Incumbent{{first, 0}, {0, number}, 8, kind};
    };
    for (const Incumbent& i : {of(3, 1, 1), of(5, 2, 2), of(2, 3, 1), of(4, 4, 3)}) best.add(i);
    CHECK(best.best() == std::vector{of(2, 3, 1), of(4, 4, 3)});
    CHECK(best.excludes(of(2.5, 9, 1)));  // worse than the best of its kind
    CHECK_FALSE(best.excludes(of(2.5, 9, 3)));
    CHECK_FALSE(best.excludes(of(2.5, 9, 4)));
    CHECK(best.excludes(of(4.5, 9, 4)));
}

// The best of all is 2, the last row 4: 3 may still be a row and is not needed for the first one's
// proof. Without kinds each row is to be proven.
TEST_CASE("of different kinds the first alone is to be proven") {
    const auto of = [](double first, std::uint64_t number, std::uint64_t kind) {
        return Incumbent{{first, 0}, {0, number}, 8, kind};
    };
    for (const bool distinct : {true, false}) {
        Incumbents best({.top = 2, .distinct = distinct});
        CHECK_FALSE(best.needs_no(of(9, 9, 9)));
        best.add(of(2, 1, 1));
        best.add(of(4, 2, 2));
        CHECK_FALSE(best.excludes(of(3, 9, 3)));
        CHECK(best.needs_no(of(3, 9, 3)) == distinct);
        CHECK_FALSE(best.needs_no(of(1.5, 9, 3)));
    }
    Incumbents groups({.top = 2, .by_group = true, .distinct = true});
    groups.add(of(2, 1, 1));
    CHECK_FALSE(groups.needs_no({{3, 0}, {0, 9}, 16, 3}));  // may be the best of group 16
}

TEST_CASE("what is within the margin of the memory comes after all that is not") {
    const Incumbent tight{{1, 1, true}, {0, 1}, 8}, roomy{{9, 9}, {0, 2}, 8};
    Incumbents best({.top = 2});
    best.add(tight);
    best.add(roomy);
    CHECK(best.best() == std::vector{roomy, tight});
    Incumbents first({.top = 1});
    first.add(roomy);
    CHECK(first.excludes(tight));
    Incumbents front({.top = 1, .front = true});
    front.add(tight);
    CHECK_FALSE(front.excludes(roomy));
}
