#include "sim/own_steps.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "measured/read.h"
#include "model/experiment.h"
#include "sim/scatter.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

OwnStep step(double off, std::vector<double> shares = {1, 0, 0, 0}, double setting = 0) {
    return {"own", off, std::move(shares), {setting}, {"bf16", "H100", "gpt"}};
}

}  // namespace

// All time in products: the variance is 0.1^2 + 0.5^2 + 0.25^2 = 0.3225, with a repetition's
// 0.04^2 = 0.0016 more in the measurement. So 0.3225 / 0.3241 of 0.2 is believed, and of that the
// products have 0.0625 / 0.3225. What is left is 0.3225 x 0.0016 / 0.3241 + 0.0016.
TEST_CASE("a step's own measurement is believed but for what repetitions differ by") {
    const Narrowed n = narrowed({{step(0.2)}}, step(0));
    const double believed = 0.3225 / 0.3241 * 0.2;
    CHECK(n.off == Approx(believed));
    CHECK(n.work[0] == Approx(believed * 0.0625 / 0.3225));
    CHECK(n.common == Approx(believed * 0.01 / 0.3225));
    CHECK(n.configuration == Approx(believed * 0.25 / 0.3225));
    CHECK(n.deviation == Approx(std::sqrt(0.3225 * 0.0016 / 0.3241 + 0.0016)));
}

// A step far away (every setting differs by thousands) that only waits for the network shares with
// one of products alone what all share: 0.01 of 0.3241.
TEST_CASE("other work on other settings shares little") {
    const Narrowed n = narrowed({{step(0.2)}}, step(0, {0, 0, 1, 0}, 1e6));
    CHECK(n.off == Approx(0.01 / 0.3241 * 0.2));
    CHECK(n.work[2] == 0);
}

// Two repetitions at 0.1 and 0.3 say 0.2, with the variance 0.3225 of the mean of two: 0.3225 /
// (0.3225 + 0.0008).
TEST_CASE("repetitions count as their mean") {
    CHECK(narrowed({{step(0.1), step(0.3)}}, step(0)).off == Approx(0.3225 / 0.3233 * 0.2));
}

TEST_CASE("a forecast narrowed by its own step is at that step, all of it, and says so") {
    const Experiment e = read_experiment("llama3_8b_h100_fsdp");
    Prediction p = predict_step(e);
    const Forecast before = p.forecast;
    const OwnSteps own{{own_step(e, before, 1.5 * before.step.p50)}};
    narrow(own, e, p);
    const double factor = p.forecast.step.p50 / before.step.p50;
    CHECK(factor == Approx(1.5).epsilon(0.01));
    CHECK(p.timeline.end.si() == Approx(p.forecast.step.p50.si()));
    CHECK(total(p.forecast.breakdown).si() == Approx(p.forecast.step.p50.si()));
    CHECK(p.forecast.tokens_per_second == Approx(before.tokens_per_second / factor));
    CHECK(p.forecast.notes.front().text.starts_with("narrowed by 1 measured step of your own: "));
    CHECK(p.forecast.step.p90 / p.forecast.step.p50 < before.step.p90 / before.step.p50 + 1e-9);
    Forecast same = before;
    narrow({}, e, same);
    CHECK(same == before);
}

// A step of other work and another configuration leaves the standard deviation of one's own steps
// near 0.25, p10 and p90 at 0.32: the forecast was surer, and stays as sure as it was.
TEST_CASE("steps that say little of a forecast do not widen it") {
    const Experiment e = read_experiment("llama3_8b_h100_fsdp");
    const Forecast before = predict(e);
    OwnStep far = own_step(e, before, 1.2 * before.step.p50);
    far.shares = {0, 0, 0, 1};
    for (double& setting : far.settings) setting += 1e6;
    const OwnSteps own{{far}};
    REQUIRE(p90_of_normal * narrowed(own, own_step(e, before, Seconds(0))).deviation >
            std::log(before.step.p90 / before.step.p50));
    Forecast after = before;
    narrow(own, e, after);
    CHECK(after.step.p90 / after.step.p50 == Approx(before.step.p90 / before.step.p50));
    CHECK(after.step.p50 / after.step.p10 == Approx(before.step.p50 / before.step.p10));
}

TEST_CASE("own steps are read as they were written") {
    const TestFolder folder;
    const OwnSteps own{{step(0.25), step(-0.5, {0.25, 0.25, 0.25, 0.25}, 3)}};
    CHECK(read_own_steps(folder.write("mine.toml", write_own_steps(own))) == own);
    CHECK_THROWS(read_own_steps(folder.write("bad.toml", "[[step]]\nname = \"x\"\noff = 1\n")));
}
