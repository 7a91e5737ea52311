#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "reports/campaign_tables.h"
#include "reports/forecast_tables.h"
#include "reports/json.h"

using namespace stepcast;

namespace {

ForecastColumn column(const char* label, double step) {
    ForecastColumn c{label, {}, {}};
    c.forecast.cluster = "dgx";
    c.forecast.calibrated = true;
    c.forecast.step = {Seconds(step), Seconds(step), Seconds(step), Seconds(step)};
    c.forecast.phases = {Seconds(step), Seconds(step / 4), Seconds(step / 2), Seconds(0),
                         Seconds(step / 4)};
    c.forecast.tokens_per_second = 1000 / step;
    c.forecast.memory.peak = Bytes(2147483648.0);
    return c;
}

Campaign campaign() {
    Campaign c;
    c.tokens = 15e12;
    c.steps = 1e6;
    c.ranks = 512;
    c.goodput = {Seconds(4 * 86'400.0), Seconds(3960), 0.942};
    c.time = {Seconds(38.94 * 86'400), Seconds(41.2 * 86'400), Seconds(44 * 86'400)};
    c.money = {2.9e6, 3.14e6, 3.4e6};
    c.energy = {Joules(3.6e12), Joules(4.32e12), Joules(5e12)};
    c.currency = "USD";
    c.offer = {"H100", 6.16, "a list", Watts(700), {}, {}, 1, "a datasheet"};
    return c;
}

}  // namespace

TEST_CASE("forecasts stand beside each other, the later against the first") {
    const std::string text = columns_table({column("a", 0.1), column("b", 0.11)});
    CHECK_THAT(text, Catch::Contains("step                   100.0 ms  110.0 ms"));
    CHECK_THAT(text, Catch::Contains("  against the first      +0.0 %   +10.0 %"));
    CHECK_THAT(text, Catch::Contains("highest peak memory    2.00 GiB  2.00 GiB"));
    CHECK_THAT(text, !Catch::Contains("p10 .. p90") && !Catch::Contains("training"));
    auto full = column("c", 0.05);  // faster, but it cannot run
    full.forecast.memory.fits = false;
    full.forecast.framework = "nemo";
    full.forecast.split = "tp 4, dp 2";
    const std::string beside = columns_table({column("a", 0.1), full});
    CHECK_THAT(beside, Catch::Contains("  against the first      +0.0 %  does not fit"));
    CHECK_THAT(beside, Catch::Contains("framework                     -          nemo"));
    CHECK_THAT(beside, Catch::Contains("parallel layout               -    tp 4, dp 2"));
    auto priced = column("a", 0.1);
    priced.campaign = campaign();
    CHECK_THAT(columns_table({priced, priced}), Catch::Contains("41.2 d (38.9 .. 44.0)"));
    const auto json = nlohmann::json::parse(columns_json({column("a \"quoted\"", 0.1), priced}));
    REQUIRE(json.size() == 2);
    CHECK(json[0]["label"] == "a \"quoted\"");
    CHECK(json[1]["step_s"]["p50"] == 0.1);
    CHECK(json[1]["training"]["money"]["p50"] == 3.14e6);
    CHECK(json[1]["training"]["goodput"]["share"] == 0.942);
}

TEST_CASE("a training is told with what its money and energy rest on") {
    CHECK(campaign_table(campaign()) == R"(training on 15 T tokens, 1,000,000 steps
  time                   41.2 d (38.9 .. 44.0)
  money                  3.14 M (2.90 .. 3.40): 512 x 6.16 USD an hour (a list)
  energy                 at most 1.20 GWh (1.00 .. 1.39): a datasheet
  useful of all time     94.2 %: a failure every 4.0 d, a checkpoint every 1.1 h
)");
    Campaign unknown = campaign();
    unknown.money = {};
    unknown.energy = {};
    unknown.offer = {};
    unknown.goodput = {};
    const std::string text = campaign_table(unknown);
    CHECK_THAT(text, Catch::Contains("price not known: set cluster.price_per_gpu_hour"));
    CHECK_THAT(text, Catch::Contains("power not known"));
    CHECK_THAT(text, Catch::Contains("100.0 %, no failures counted"));
    Campaign cheap = campaign();  // less than a dollar is a price, too, and half a joule is known
    cheap.money = {0.4, 0.5, 0.75};
    cheap.energy = {Joules(0.4), Joules(0.5), Joules(0.6)};
    CHECK_THAT(campaign_table(cheap),
               Catch::Contains(": 512 x 6.16 USD an hour (a list)") && Catch::Contains("at most "));
    CHECK(duration_text(Seconds(90)) == "1.5 min");
    CHECK(duration_text(Seconds(26'280)) == "7.3 h");
    CHECK(spoken_count(300e9) == "300 B");
    CHECK(spoken_count(2048) == "2,048");
}

// Three figures of each: 9.99, 99.9 and from 100 on none behind the point; units change at a full
// thousand.
TEST_CASE("money and energy have three figures and the unit of their size") {
    Campaign c = campaign();
    const auto money = [&](double value) {
        c.money = {value, value, value};
        return money_text(c);
    };
    CHECK(money(999'999) == "999,999");
    CHECK(money(1e6) == "1.00 M");
    CHECK(money(10e6) == "10.0 M");
    CHECK(money(100e6) == "100 M");
    CHECK(money(1e9) == "1.00 G");
    CHECK(money(0) == "-");
    const auto energy = [&](double kwh) {
        c.energy = {Joules(kwh * 3.6e6), Joules(kwh * 3.6e6), Joules(kwh * 3.6e6)};
        return energy_text(c);
    };
    CHECK(energy(500) == "500 kWh");
    CHECK(energy(1000) == "1.00 MWh");
    CHECK(energy(1e6) == "1.00 GWh");
    CHECK(energy(0) == "-");
    // A range has the unit of its middle.
    c.money = {900'000, 1e6, 1.1e6};
    CHECK(money_text(c) == "1.00 M (0.90 .. 1.10)");
    c.money = {900'000, 990'000, 1.1e6};
    CHECK(money_text(c) == "990,000 (900,000 .. 1,100,000)");
    CHECK(spoken_count(1e12) == "1 T");
    CHECK(spoken_count(1.2e9) == "1.2 B");
    CHECK(spoken_count(1e6) == "1 M");
    CHECK(duration_text(Seconds(86'400)) == "1.0 d");
    CHECK(duration_text(Seconds(3600)) == "1.0 h");
    CHECK(duration_text(Seconds(60)) == "1.0 min");
    CHECK(duration_text(Seconds(59)) == "59.0 s");
}
