#include "calibrate/outliers.h"

#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/calibrate/linear_rows.h"

using namespace stepcast;

// Six of ten rows lie within 0.04 of 0.1, four 0.4 above: between them no value of the unknown
// leaves less than 0.15. Most agree on 0.1, from where the four are more than a quarter away. One
// or two such rows have little weight anyway, and with five of ten neither side is most. Where a
// second unknown explains the four, or the rows scatter by a tenth, nobody is far.
TEST_CASE("rows that most others contradict are found, however many Huber's loss believes") {
    const auto far = [](int wrong, double by, bool explained, double scatter) {
        std::vector<Vector> slopes;
        Vector truth;
        for (int i = 0; i < 10; ++i) {
            slopes.push_back({1.0, explained && i < wrong ? 1.0 : 0.0});
            truth.push_back(0.1 + scatter * (i % 2 == 0 ? 1 : -1) + (i < wrong ? by : 0.0));
        }
        const RowModel rows = linear(slopes, truth);
        const std::vector<Prior> priors{{0, 0.5, -3, 3}, {0, 0.5, -3, 3}};
        return far_from_most(rows, priors,
                             most_probable(rows, priors, std::vector<bool>(10, true), {0, 0}));
    };
    const auto first = [](int n) {
        std::vector<bool> flags(10, false);
        std::fill_n(flags.begin(), n, true);
        return flags;
    };
    CHECK(far(4, 0.4, false, 0.02) == first(4));
    CHECK(far(4, -0.4, false, 0.02) == first(4));
    CHECK(far(3, 0.4, false, 0.02) == first(3));
    CHECK(far(2, 0.7, false, 0.02) == first(0));
    CHECK(far(1, 0.4, false, 0.02) == first(0));
    CHECK(far(5, 0.4, false, 0.02) == first(0));
    CHECK(far(4, 0.4, true, 0.02) == first(0));
    CHECK(far(4, 0.2, false, 0.02) == first(0));
    CHECK(far(4, 0.4, false, 0.1) == first(0));
}

// No unknown moves these rows: a base that is off by 0.12 for six and by 0.52 for four is off by
// 0.12.
TEST_CASE("an error that all rows share makes none of them far") {
    const auto far = [](double shared, double by) {
        Vector truth;
        for (int i = 0; i < 10; ++i)
            truth.push_back(shared + 0.02 * (i % 2 == 0 ? 1 : -1) + (i < 4 ? by : 0.0));
        const RowModel rows = linear(std::vector<Vector>(10, Vector{}), truth);
        return far_from_most(rows, {}, most_probable(rows, {}, std::vector<bool>(10, true), {}));
    };
    const std::vector<bool> none(10, false),
        four{true, true, true, true, false, false, false, false, false, false};
    CHECK(far(0.12, 0.4) == four);
    CHECK(far(-0.3, 0.4) == four);
    CHECK(far(0.4, -0.4) == four);
    CHECK(far(0.4, 0) == none);
}

// As the base is, five rows agree, four are 0.4 and one is 0.8 away: neither side is most. An
// unknown moves the last alone, and with it six agree against four.
TEST_CASE("a row that an unknown explains hides no wrong ones") {
    std::vector<Vector> slopes;
    Vector truth;
    for (int i = 0; i < 10; ++i) {
        slopes.push_back({i == 9 ? 1.0 : 0.0});
        truth.push_back(0.1 + 0.02 * (i % 2 == 0 ? 1 : -1) + (i < 4 ? 0.4 : i == 9 ? 0.8 : 0.0));
    }
    const RowModel rows = linear(slopes, truth);
    const std::vector<Prior> priors{{0, 0.5, -3, 3}};
    const std::vector<bool> four{true, true, true, true, false, false, false, false, false, false};
    CHECK(far_from_most(rows, priors,
                        most_probable(rows, priors, std::vector<bool>(10, true), {0})) == four);
}
