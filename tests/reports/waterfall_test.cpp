#include "reports/waterfall.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

using namespace stepcast;

namespace {

// 100 ms, three bars of a third of 10 ms, 110 ms; measured 103 and 115.
Waterfall thirds(bool measured) {
    Waterfall w;
    w.from = {"a", Seconds(0.1), Seconds(measured ? 0.103 : 0)};
    w.to = {"b", Seconds(0.11), Seconds(measured ? 0.115 : 0)};
    for (const char* key : {"parallelism.tp", "parallelism.pp", "workload.seq"})
        w.bars.push_back({"", {{key, "1", "2"}}, Seconds(0.01 / 3)});
    w.unexplained = Seconds(measured ? 0.002 : 0);
    w.reach = 0.03;
    return w;
}

double number(const std::string& cell) { return std::stod(cell); }

}  // namespace

// 3.33 + 3.33 + 3.33 would be 9.99: the printed costs are differences of printed steps, so they add
// up to 10.00.
TEST_CASE("the printed bars add up to the printed ends, to the digit") {
    for (const bool measured : {false, true}) {
        const Waterfall w = thirds(measured);
        const Table t = waterfall_bars(w);
        REQUIRE(t.rows.size() == (measured ? 6 : 5));
        long sum = std::lround(100 * number(t.rows.front()[2].text));
        for (std::size_t i = 1; i + 1 < t.rows.size(); ++i) {
            sum += std::lround(100 * number(t.rows[i][1].text));
            CHECK(std::lround(100 * number(t.rows[i][2].text)) == sum);
        }
        CHECK(std::lround(100 * number(t.rows.back()[2].text)) == sum);
        CHECK(sum == (measured ? 11500 : 11000));
    }
}

TEST_CASE("a difference within what two forecasts are off is said to be none") {
    Waterfall w = thirds(false);
    CHECK(waterfall_table(w).find("cannot be told apart") == std::string::npos);
    w.reach = 0.2;
    CHECK(waterfall_table(w).find("cannot be told apart") != std::string::npos);
}

TEST_CASE("a waterfall as an object has every key, and null for what was not measured") {
    const auto j = nlohmann::json::parse(to_json(thirds(false)));
    CHECK(j["bars"].size() == 3);
    CHECK(j["bars"][0]["keys"][0]["key"] == "parallelism.tp");
    CHECK(j["unexplained_s"].is_null());
    CHECK(j["from"]["measured_s"].is_null());
    CHECK(nlohmann::json::parse(to_json(thirds(true)))["unexplained_s"] == Approx(0.002));
}
