#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "reports/compare.h"
#include "reports/comparison_json.h"
#include "reports/comparison_tables.h"
#include "reports/json.h"
#include "tests/reports/samples.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

Interval exactly(double seconds) {
    return {Seconds(seconds), Seconds(seconds), Seconds(seconds), Seconds(seconds)};
}

// Backward 0.5 s, gradient_sync 0.1 s, optimizer 0.2 s; kernels q and up on two ranks.
Comparison recorded() {
    Comparison c = samples::compared("run", "small", 1000, 1000, 900, 1200);
    c.forecast->forward = exactly(0.3);
    c.forecast->backward = exactly(0.5);
    c.forecast->gradient_sync = exactly(0.1);
    c.forecast->optimizer = exactly(0.2);
    c.forecast->kernels = {{"q", Phase::forward, 0, Seconds(0.01)},
                           {"q", Phase::backward, 0, Seconds(0.5)},
                           {"up", Phase::forward, 0, Seconds(0.02)},
                           {"q", Phase::forward, 1, Seconds(0.04)}};
    c.what.experiment.recorded.timed = "q, up";
    return c;
}

}  // namespace

TEST_CASE("a log's backward is predicted as the phases that its timer spans") {
    Comparison c = recorded();
    CHECK(predicted_backward(c) == Seconds(0.5));
    c.what.experiment.recorded.backward = "backward, gradient_sync,optimizer";
    CHECK(predicted_backward(c).si() == Approx(0.8));
    c.what.measured_backward = Seconds(0.8);
    CHECK(nlohmann::json::parse(to_json(summarise({c}), {c}))["rows"][0]["predicted_backward_s"] ==
          Approx(0.8));
}

// One that measured the forward alone has a line too, with nothing to compare the backward with.
TEST_CASE("a case that measured one of forward and backward has a line of both") {
    Comparison c = recorded();
    c.what.measured_forward = Seconds(0.25);
    c.what.measured_backward.reset();
    CHECK_THAT(comparison_table({c}),
               Contains("250.0 ms     300.0 ms   +20.0 %            -     500.0 ms         -"));
    c.what.measured_forward.reset();
    CHECK_THAT(comparison_table({c}), !Contains("300.0 ms"));
}

// timed.forward of rank 0 is q + up = 0.03; q.forward of no rank is the longest, rank 1's 0.04; q
// alone has no phase: 0.51.
TEST_CASE("measured phases find the phase or the kernels that they name, and others are left out") {
    Comparison c = recorded();
    c.what.measured_phases = {{"optimizer", -1, Seconds(0.25)},
                              {"timed.forward", 0, Seconds(0.03)},
                              {"q.forward", -1, Seconds(0.04)},
                              {"q", 0, Seconds(0.5)},
                              {"layer3.forward", 0, Seconds(1)}};
    const auto found = phase_comparisons(c);
    REQUIRE(found.size() == 4);
    CHECK(found[0] == PhaseComparison{"optimizer", -1, Seconds(0.25), Seconds(0.2)});
    CHECK(found[1].predicted.si() == Approx(0.03));
    CHECK(found[2].predicted == Seconds(0.04));
    CHECK(found[3].predicted.si() == Approx(0.51));
    const auto rows = nlohmann::json::parse(to_json(summarise({c}), {c}))["rows"][0]["phases"];
    CHECK(rows[0]["phase"] == "optimizer");
    CHECK(rows[0]["error"] == Approx(-0.2));
    CHECK_THAT(comparison_table({c}), Contains("timed.forward"));
}

// p10 = 0.9, p90 = 1.2: nine of twelve steps inside. Fewer than ten are no series.
TEST_CASE("the share of recorded steps inside p10 to p90 is told, and the mean beside the median") {
    Comparison c = recorded();
    CHECK_FALSE(series_inside(c));
    c.what.recorded_steps = {Seconds(0.9), Seconds(1.0), Seconds(1.2), Seconds(2.0)};
    CHECK_THAT(comparison_table({c}), !Contains("recorded steps"));
    for (int i = 0; i < 2; ++i)
        for (const double step : {0.9, 1.0, 1.2, 2.0}) c.what.recorded_steps.emplace_back(step);
    c.what.measured_mean = Seconds(1.275);
    CHECK(series_inside(c) == 0.75);
    const std::string table = comparison_table({c});
    CHECK_THAT(table, Contains("75.0 % of the 12 recorded steps inside p10..p90"));
    CHECK_THAT(table, Contains("mean of the step"));
    const auto row = nlohmann::json::parse(to_json(summarise({c}), {c}))["rows"][0];
    CHECK(row["recorded_inside"] == 0.75);
    CHECK(row["measured_mean_s"] == 1.275);
}
