#include "reports/diagnosis.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace stepcast;
using Verdict = Diagnosis::Verdict;

namespace {

SuspectedCause cause(const char* name, double probability, double minutes) {
    return {.name = name,
            .what = std::string("what ") + name + " is",
            .test = std::string("test of ") + name,
            .remedy = std::string("remedy of ") + name,
            .minutes = minutes,
            .probability = probability,
            .costs = Seconds(0.05),
            .without = Seconds(0.1),
            .severity = 2,
            .in_some_steps = false,
            .witnesses = {{"the step", "150 ms explained of 150 ms", 1.2},
                          {"optimizer", "9 ms expected, 3 ms measured", -2.0},
                          {"forward", "50 ms expected, 50 ms measured", 0.1}}};
}

Diagnosis slow_run() {
    Diagnosis d;
    d.verdict = Verdict::likely;
    d.run = "run";
    d.measured = Seconds(0.15);
    d.forecast = {Seconds(0.1), Seconds(0.09), Seconds(0.1), Seconds(0.11)};
    d.probability_of_nothing = 0.05;
    d.causes = {cause("one", 0.7, 10), cause("two", 0.2, 1), cause("three", 0.04, 1)};
    return d;
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a diagnosis names gap, causes, what speaks for and against, and the cheaper test") {
    const std::string text = diagnosis_table(slow_run());
    CHECK(has(text, "likely: one (70.0 % of the probability)"));
    CHECK(has(text, "gap 50.00 ms (+50.0 %)"));
    CHECK(has(text, "for: the step"));
    CHECK(has(text, "against: optimizer"));
    CHECK(!has(text, "forward: 50 ms"));  // speaks for nothing
    CHECK(has(text, "cheapest test (1 min), of two: test of two"));
    CHECK(has(text, "change: remedy of one"));
    CHECK(!has(text, "remedy of three"));
}

TEST_CASE("two causes as likely are both named, and nothing beside them where it is as likely") {
    Diagnosis d = slow_run();
    d.verdict = Verdict::cannot_tell;
    d.causes[1].probability = 0.6;
    d.alike = {"one", "two"};
    CHECK(has(verdict_text(d), "cannot tell: one, two may be why"));
    d.probability_of_nothing = 0.5;
    d.alike = {"nothing at all", "one", "two"};
    CHECK(has(verdict_text(d), "nothing at all, one, two"));
    d.causes.clear();
    CHECK(has(verdict_text(d), "no cause of the list explains it"));
}

TEST_CASE("a sound run gets no causes, and a run too fast none that make it slower") {
    Diagnosis d = slow_run();
    d.verdict = Verdict::nothing_wrong;
    CHECK(has(diagnosis_table(d), "nothing is wrong"));
    CHECK(!has(diagnosis_table(d), "remedy of"));
    d.verdict = Verdict::too_fast;
    CHECK(!has(diagnosis_table(d), "remedy of"));
    d.causes.front().costs = Seconds(-0.3);
    CHECK(has(diagnosis_table(d), "Likeliest: one"));
}

TEST_CASE("a diagnosis as an object") {
    const auto j = nlohmann::json::parse(to_json(slow_run()));
    CHECK(j["verdict"] == "likely");
    CHECK(j["causes"][0]["costs_s"] == Approx(0.05));
    CHECK(j["causes"][0]["evidence"].size() == 3);
    CHECK(j["steps"].is_null());
}
