#include "sim/sweep/constraints.h"

#include <catch2/catch.hpp>

#include "model/input/split_keys.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

std::vector<Constraint> parsed(const std::vector<std::string>& texts) {
    return parse_constraints(texts);
}

void check(const std::vector<std::string>& texts,
           const std::vector<std::string>& vary = {"parallelism.tp=1,2"}) {
    std::vector<Axis> axes;
    for (const auto& text : vary) axes.push_back(parse_axis(text));
    check_constraints(parsed(texts), axes, small_gpt());
}

}  // namespace

TEST_CASE("the option --where reads quantities with their units, several joined by and") {
    const auto all = parsed(
        {"memory.peak < 76 GiB", "step>=1.5 s and mfu > 45 % and parallelism.schedule = 1f1b"});
    REQUIRE(all.size() == 4);
    CHECK(all[0].value == 76.0 * 1024 * 1024 * 1024);
    CHECK(all[0].relation == Relation{.below = true});
    CHECK(all[1].measure == Measure::step);
    CHECK(all[1].relation == Relation{.equal = true, .above = true});
    CHECK(all[1].value == 1.5);
    CHECK(all[2].value == Approx(0.45));
    CHECK(all[3].measure == Measure::split);
    CHECK(all[3].split_key == split_index("parallelism.schedule"));
    CHECK(all[3].value == static_cast<int>(Schedule::one_f_one_b));
}

TEST_CASE("the option --where refuses what it cannot read") {
    CHECK_THROWS_WITH(parsed({"memory.peak"}),
                      Catch::Contains("expected a quantity, a relation and a value"));
    CHECK_THROWS_WITH(parsed({"memory.peek < 1 GiB"}),
                      Catch::Contains("did you mean \"memory.peak\"?"));
    CHECK_THROWS_WITH(parsed({"memory.peak < 76"}), Catch::Contains("76"));
    CHECK_THROWS_WITH(parsed({"tokens > many"}), Catch::Contains("\"many\" is no number"));
    CHECK_THROWS_WITH(parsed({"step <"}), Catch::Contains("the value is missing"));
    CHECK_THROWS_WITH(parsed({"step ! 3 s"}), Catch::Contains("expected <"));
}

TEST_CASE("each relation holds on its own side of the value") {
    const ParallelPlan split;
    const auto all = [&](const char* relation) {
        std::vector<bool> found;
        for (const double step : {1.0, 2.0, 3.0})
            found.push_back(holds(parsed({std::string("step ") + relation + " 2 s"}).front(),
                                  {split, {}, 1, 1, {}, {}}, Seconds(step)));
        return found;
    };
    CHECK(all("<") == std::vector<bool>{true, false, false});
    CHECK(all("<=") == std::vector<bool>{true, true, false});
    CHECK(all(">") == std::vector<bool>{false, false, true});
    CHECK(all(">=") == std::vector<bool>{false, true, true});
    CHECK(all("=") == std::vector<bool>{false, true, false});
    CHECK(all("==") == std::vector<bool>{false, true, false});
    CHECK(all("!=") == std::vector<bool>{true, false, true});
}

TEST_CASE("constraints that exclude each other are refused before work") {
    CHECK_THROWS_WITH(check({"memory.peak < 10 GiB", "memory.peak > 20 GiB"}),
                      Catch::Contains("no configuration can satisfy both"));
    CHECK_THROWS_WITH(check({"step < 1 s and step >= 1 s"}), Catch::Contains("no configuration"));
    CHECK_THROWS_WITH(check({"step < 0 s"}), Catch::Contains("nothing is below 0"));
    CHECK_NOTHROW(check({"step <= 1 s and step >= 1 s"}));
    // of two limits with one value the strict one counts, in either order
    CHECK_THROWS_WITH(check({"step < 1 s and step <= 1 s and step >= 1 s"}),
                      Catch::Contains("no configuration"));
    CHECK_THROWS_WITH(check({"step <= 1 s and step < 1 s and step >= 1 s"}),
                      Catch::Contains("no configuration"));
    CHECK_THROWS_WITH(check({"step > 1 s and step >= 1 s and step <= 1 s"}),
                      Catch::Contains("no configuration"));
    CHECK_THROWS_WITH(check({"step >= 1 s and step > 1 s and step <= 1 s"}),
                      Catch::Contains("no configuration"));
    CHECK_THROWS_WITH(check({"step = 1 s and step != 2 s and step = 2 s"}),
                      Catch::Contains("excluded by"));
    // exclusions of single values are not checked
    CHECK_NOTHROW(check({"step != 1 s and step = 1 s"}));
    CHECK_NOTHROW(check({"parallelism.tp >= 2 and parallelism.tp < 4"}));
    CHECK_NOTHROW(check({"parallelism.zero = 0"}));
    CHECK_THROWS_WITH(check({"parallelism.tp > 2"}),
                      Catch::Contains("no value of --vary parallelism.tp"));
    CHECK_THROWS_WITH(check({"parallelism.pp > 1"}), Catch::Contains("does not vary"));
    CHECK_THROWS_WITH(check({"memory.peak > 100 GB"}), Catch::Contains("the device has 80 GB"));
    CHECK_THROWS_WITH(check({"cost < 1"}), Catch::Contains("cluster.price_per_gpu_hour is 0"));
}

// 1,000 tokens per step, a price of 2 per second, 1e15 useful operations at a peak of 1e15/s. A
// step of 0.5 s: 2,000 tokens/s, 1,000 money per million tokens, utilization 2.
TEST_CASE("a constraint holds by the step and can hold by its lower bound") {
    const ParallelPlan split;
    const PointFacts facts{split, Bytes(5e9), 1000, 2, Flops(1e15), FlopsPerSecond(1e15)};
    const auto one = [](const std::string& text) { return parsed({text}).front(); };
    const Seconds step(0.5);
    CHECK(holds(one("tokens >= 2000"), facts, step));
    CHECK_FALSE(holds(one("tokens > 2000"), facts, step));
    CHECK(holds(one("cost <= 1000"), facts, step));
    CHECK(holds(one("mfu = 2"), facts, step));
    CHECK(holds(one("memory.peak != 6 GB"), facts, step));

    CHECK(can_hold(one("step < 0.6 s"), facts, step));
    // no step of at least 0.5 s is below 0.5 s
    CHECK_FALSE(can_hold(one("step < 0.5 s"), facts, step));
    CHECK(can_hold(one("step > 9 s"), facts, step));  // a longer step may be
    CHECK_FALSE(can_hold(one("tokens > 2000"), facts, step));
    CHECK(can_hold(one("tokens < 3"), facts, step));
    // a lower bound of 0 excludes nothing
    CHECK(can_hold(one("tokens > 2000"), facts, Seconds(0)));
    CHECK_FALSE(can_hold(one("cost < 999"), facts, step));
    CHECK_FALSE(can_hold(one("memory.peak < 5 GB"), facts, step));
    CHECK_FALSE(can_hold(one("parallelism.tp > 1"), facts, step));
}
