#include "reports/compare.h"

#include <catch2/catch.hpp>

#include "model/base/errors.h"
#include "tests/reports/samples.h"

using namespace stepcast;
using samples::compared;

// Errors: 110/100 - 1 = +10 %, 190/200 - 1 = -5 %, 400/400 - 1 = 0.
// mape = (10 + 5 + 0) / 3 = 5 %; median of {0, 5, 10} = 5 %; p90 lies at position 0.9 x 2 = 1.8, so
// 5 + 0.8 x 5 = 9 %; bias = (10 - 5 + 0) / 3 = 5/3 %. 100 in [95, 120] yes, 200 in [180, 195] no,
// 400 in [400, 400] yes: 2 of 3; two have a spread. Measured and predicted are in the same order:
// correlation 1.
TEST_CASE("A comparison sums up its errors, its interval and its refusals") {
    const CompareSummary s =
        summarise({compared("a", "s", 100, 110, 95, 120), samples::refused("r", "no preset"),
                   compared("b", "s", 200, 190, 180, 195), compared("c", "s", 400, 400, 400, 400)});
    CHECK(s.cases == 4);
    CHECK(s.predicted == 3);
    CHECK(s.refused == 1);
    CHECK(s.mape == Approx(0.05));
    CHECK(s.median_ape == Approx(0.05));
    CHECK(s.p90_ape == Approx(0.09));
    CHECK(s.bias == Approx(0.05 / 3));
    CHECK(s.inside_interval == Approx(2.0 / 3));
    CHECK(s.with_interval == 2);
    CHECK(inside_count_text(s) == "measured inside p10..p90: 1 of 2 (1 more without an interval)");
    CHECK(s.worst_case == "a");
    CHECK(s.worst_error == Approx(0.1));
    REQUIRE(s.rank_correlation);
    CHECK(*s.rank_correlation == Approx(1));
}

// The ends of the interval are inside it, a hair beyond is not.
TEST_CASE("A measurement at the end of the interval is inside") {
    CHECK(inside_interval(compared("a", "s", 90, 100, 90, 110)));
    CHECK(inside_interval(compared("a", "s", 110, 100, 90, 110)));
    CHECK_FALSE(inside_interval(compared("a", "s", 89.999, 100, 90, 110)));
    CHECK_FALSE(inside_interval(compared("a", "s", 110.001, 100, 90, 110)));
}

TEST_CASE("A comparison of nothing, or of refusals only, has no errors to tell") {
    CHECK(summarise({}) == CompareSummary{});
    const CompareSummary s = summarise({samples::refused("r", "why")});
    CHECK(s.refused == 1);
    CHECK(s.predicted == 0);
    CHECK_FALSE(s.rank_correlation);
    CHECK(s.worst_case.empty());
}

TEST_CASE("An exact prediction still names a worst case") {
    const CompareSummary s = summarise({compared("a", "s", 100, 100, 100, 100)});
    CHECK(s.worst_case == "a");
    CHECK(s.mape == 0);
}

TEST_CASE("A case without a measured step is refused by name rather than divided by") {
    CHECK_THROWS_WITH(summarise({compared("a", "s", 0, 100, 90, 110)}),
                      "case a: measured step 0 s; expected more than 0");
    CHECK_THROWS_AS(summarise({compared("a", "s", 0, 100, 90, 110)}), ConfigError);
}

// Ranks of {1, 2, 2, 4}: 1, 2.5, 2.5, 4; of {1, 3, 2, 4}: 1, 3, 2, 4; both means 2.5.
// covariance sum = 1.5 x 1.5 + 0 + 0 + 1.5 x 1.5 = 4.5; variance sums 4.5 and 5; rho = 4.5 /
// sqrt(22.5).
TEST_CASE("Spearman's correlation shares ranks among ties") {
    CHECK(spearman({1, 2, 2, 4}, {1, 3, 2, 4}).value() == Approx(4.5 / std::sqrt(22.5)));
    CHECK(spearman({1, 2, 3}, {30, 20, 10}).value() == Approx(-1));
    CHECK_FALSE(spearman({1}, {1}));
    CHECK_FALSE(spearman({1, 2}, {5, 5}));
}

// Series x: 3 cases in order, rho 1. Series y: 4 cases, neighbours swapped: rho = 1 - 6 x 4 / (4 x
// 15) = 0.6. Series z has two cases only. Weighted by cases: (3 x 1 + 4 x 0.6) / 7. Over all cases
// at once it would be something else, since y's values are ten times x's.
TEST_CASE("Ranks are correlated within each series of three or more") {
    const CompareSummary s =
        summarise({compared("1", "x", 1, 1, 1, 1), compared("2", "x", 2, 2, 2, 2),
                   compared("3", "x", 3, 3, 3, 3), compared("4", "y", 10, 20, 20, 20),
                   compared("5", "y", 20, 10, 10, 10), compared("6", "y", 30, 40, 40, 40),
                   compared("7", "y", 40, 30, 30, 30), compared("8", "z", 1, 9, 9, 9),
                   compared("9", "z", 2, 8, 8, 8)});
    REQUIRE(s.rank_correlation);
    CHECK(*s.rank_correlation == Approx(5.4 / 7));
    CHECK_FALSE(summarise({compared("8", "z", 1, 9, 9, 9), compared("9", "z", 2, 8, 8, 8)})
                    .rank_correlation);
}

// Two series of one name from two sources, each in order, but not when mixed: (1, 5), (2, 6), (3,
// 7) and (1.5, 1), (2.5, 2), (3.5, 3).
TEST_CASE("Models of one name from two sources are ranked apart") {
    std::vector<Comparison> cases;
    for (int i = 0; i < 3; ++i) {
        cases.push_back(compared("a", "s", 1 + i, 5 + i, 5 + i, 5 + i));
        cases.push_back(compared("b", "s", 1.5 + i, 1 + i, 1 + i, 1 + i));
        cases.back().what.source = "other";
    }
    CHECK(summarise(cases).rank_correlation.value() == Approx(1));
}

// Fitted on: a (+10 %). Unseen: b (-5 %). Not looked up: c. A refused case shows nothing.
TEST_CASE("Cases are chosen by what their forecasts show") {
    std::vector<Comparison> cases{
        compared("a", "s", 100, 110, 110, 110), compared("b", "s", 100, 95, 95, 95),
        compared("c", "s", 100, 100, 100, 100), samples::refused("r", "why")};
    cases[0].what.evidence = Evidence::fitted;
    cases[1].what.evidence = Evidence::unseen;
    cases[3].what.evidence = Evidence::unseen;
    CHECK(of_evidence(cases, Evidence::fitted).size() == 1);
    CHECK(summarise(of_evidence(cases, Evidence::fitted)).bias == Approx(0.10));
    CHECK(of_evidence(cases, Evidence::unseen).size() == 1);
    CHECK(summarise(of_evidence(cases, Evidence::unseen)).bias == Approx(-0.05));
    CHECK(of_evidence(cases, Evidence::seen).empty());
}

// 11 GB predicted of 10 measured is +10 %, 9 of 12 is -25 %: mean 17.5 %. A case without a measured
// peak has no error.
TEST_CASE("Peak memory is compared where it was measured") {
    std::vector<Comparison> cases{compared("a", "s", 1, 1, 1, 1), compared("b", "s", 1, 1, 1, 1),
                                  compared("c", "s", 1, 1, 1, 1), samples::refused("r", "why")};
    cases[0].forecast->memory.peak = Bytes(11e9);
    cases[0].what.measured_peak = Bytes(10e9);
    cases[1].forecast->memory.peak = Bytes(9e9);
    cases[1].what.measured_peak = Bytes(12e9);
    cases[3].what.measured_peak = Bytes(12e9);
    CHECK(peak_error(cases[0]).value() == Approx(0.1));
    CHECK_FALSE(peak_error(cases[2]));
    CHECK_FALSE(peak_error(cases[3]));
    const CompareSummary s = summarise(cases);
    CHECK(s.with_peak == 2);
    CHECK(s.peak_mape == Approx(0.175));
}
