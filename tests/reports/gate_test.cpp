#include "reports/gate.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace stepcast;
using GateVerdict = GateAnswer::Verdict;

namespace {

GateAnswer slow() {
    GateAnswer a;
    a.verdict = GateVerdict::fail;
    a.run = "nightly <7>";
    a.because = "5.0 % slower than its history";
    a.steps = 40;
    a.runs = 6;
    a.level = Seconds(1.05);
    a.usual = Seconds(1);
    a.slower = 0.05;
    a.bound = 0.01;
    a.seen = 0.015;
    a.steps_for_tolerance = 12;
    return a;
}

bool states(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a verdict is told with its false alarms and its power") {
    const std::string text = gate_text(slow());
    CHECK(text.starts_with("fail: nightly <7>: 5.0 % slower"));
    CHECK(states(text, "false alarms 1.0 %"));
    CHECK(states(text, "by 3.0 % in 12 steps"));
    GateAnswer never = slow();
    never.steps_for_tolerance = 0;
    CHECK(states(gate_text(never), "in no number of steps"));
    CHECK(nlohmann::json::parse(to_json(never))["steps_for_tolerance"].is_null());
}

TEST_CASE("what moved, and what the forecast says, are told beside the history") {
    GateAnswer a = slow();
    CHECK(!states(gate_text(a), "moved most"));
    CHECK(!states(gate_text(a), "such a run takes"));
    a.phases = {{"backward", Seconds(0.66), Seconds(0.6)}, {"forward", Seconds(0.3), Seconds(0.3)}};
    a.forecast = {.mean = Seconds(1), .p10 = Seconds(0.9), .p50 = Seconds(1), .p90 = Seconds(1.04)};
    CHECK(states(gate_text(a), "moved most: backward 600.0 ms -> 660.0 ms (+10.0 %)"));
    CHECK(states(gate_text(a), "slower than its forecast allows"));  // 1.05 s
    CHECK(nlohmann::json::parse(to_json(a))["phases"][0]["now_s"] == Approx(0.66));
    a.forecast.p90 = Seconds(1.06);
    CHECK(!states(gate_text(a), "slower than its forecast"));
}

// A failure is a failure, what cannot be told is skipped; names are escaped.
TEST_CASE("JUnit counts failures and what was not told") {
    GateAnswer a = slow();
    CHECK(states(gate_junit(a), "failures=\"1\" skipped=\"0\""));
    CHECK(states(gate_junit(a), "nightly &lt;7&gt;"));
    a.verdict = GateVerdict::cannot_tell;
    CHECK(states(gate_junit(a), "failures=\"0\" skipped=\"1\""));
    CHECK(states(gate_junit(a), "<skipped"));
    a.verdict = GateVerdict::pass;
    CHECK(states(gate_junit(a), "failures=\"0\" skipped=\"0\""));
}
