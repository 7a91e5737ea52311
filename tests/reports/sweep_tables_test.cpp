#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "reports/json.h"
#include "reports/sweep_json.h"
#include "reports/sweep_tables.h"
#include "tests/reports/sweeps.h"

using namespace stepcast;

TEST_CASE(
    "a sweep's table has the varied keys, what is common beneath, counts, reasons and the proof") {
    CHECK(sweep_table(sample_sweep()) == R"(gpt on dgx, calibrated: shortest step

   tp      step         p10 .. p90    memory  tokens/s  MFU, unmasked   bound
1   2  100.0 ms  50.00 .. 125.0 ms  4.00 GiB    40,960         50.0 %  -2.0 %
2   4  200.0 ms  100.0 .. 250.0 ms  2.00 GiB    20,480         25.0 %  -1.0 %
all of them: zero = 1

               12 points asked for
                9 legal
                7 feasible
                5 bounded away, not simulated: their lower bound is no better
                2 simulated
                2 infeasible: does not fit into the device's memory
                3 illegal: tp does not divide workload.heads
only where step < 1 s
proven: the best 2 of 7 feasible configurations; 2 were simulated, each of the other 5 has a lower bound that
  is no better
)");
}

TEST_CASE("costs, fronts, sizes, broken bounds and schedules left out show in a sweep's table") {
    SweepAnswer answer = sample_sweep();
    CHECK_THAT(sweep_table(answer), !Catch::Contains("not searched"));
    answer.schedules_left_out = {"dualpipe"};
    CHECK_THAT(sweep_table(answer), Catch::Contains("not searched: schedule dualpipe"));
    CHECK(nlohmann::json::parse(to_json(answer))["schedules_left_out"][0] == "dualpipe");
    for (SweepRow& row : answer.best) row.cost_per_token = 2e-6;
    answer.second = Objective::cost;
    answer.scaling = answer.best;
    answer.broken_bounds = 1;
    const std::string text = sweep_table(answer);
    CHECK_THAT(text, Catch::Contains("Pareto front of shortest step and cheapest tokens"));
    CHECK_THAT(text, Catch::Contains("cost/M tokens"));
    CHECK_THAT(text, Catch::Contains("the best of each number of ranks"));
    CHECK_THAT(
        text,
        Catch::Contains(
            "NOT proven: 1 of 2 simulated configurations were faster than their lower bound"));
}

TEST_CASE("what cannot be told from the first is marked, and a single draw is said") {
    SweepAnswer answer = sample_sweep();
    for (SweepRow& row : answer.best) row.forecast.draws = 100;
    answer.best[1].behind = Behind{-0.02, 0.03, 0.08, false};
    std::string text = sweep_table(answer);
    CHECK_THAT(text, Catch::Contains("~ -2.0 .. +8.0 %"));
    CHECK_THAT(
        text,
        Catch::Contains("~ not distinguishable from 1 (1 of 2): over the 100 draws that both met"));
    CHECK_THAT(text, Catch::Contains("each by its median over 100"));
    const auto json = nlohmann::json::parse(to_json(answer));
    CHECK(json["top"][1]["behind_first"]["distinguishable"] == false);
    CHECK(json["top"][1]["behind_first"]["p90"] == 0.08);
    CHECK_FALSE(json["top"][0].contains("behind_first"));
    answer.best[1].behind->distinguishable = true;
    CHECK_THAT(sweep_table(answer), !Catch::Contains("not distinguishable"));
    answer.one_routing = true;
    CHECK_THAT(sweep_table(answer), Catch::Contains("ranked by one draw of the routing"));
    answer.objective = Objective::tokens;
    answer.work_differs = true;
    CHECK_THAT(sweep_table(answer), Catch::Contains("most tokens/s, as tokens per step differ"));
}

// Each machine once, in the order of the best of each, the best and the best of each size; else the
// one that was asked.
TEST_CASE("a sweep's title names the machines of its rows") {
    SweepAnswer answer = sample_sweep();
    CHECK(sweep_title(answer) == "gpt on dgx, calibrated: shortest step");
    answer.of_each = answer.scaling = answer.best;
    answer.of_each[0].forecast.cluster = "b";
    answer.best[0].forecast.cluster = "b";
    answer.best[1].forecast.cluster = "a";
    answer.scaling[0].forecast.cluster = "c";
    answer.framework = "own";
    answer.calibrated = false;
    CHECK(sweep_title(answer) == "gpt on b, a, c, framework own, UNCALIBRATED: shortest step");
    for (auto* rows : {&answer.of_each, &answer.best, &answer.scaling})
        for (SweepRow& row : *rows) row.forecast.calibrated = row.forecast.cluster != "c";
    CHECK(sweep_title(answer) == "gpt on b, a, c, framework own, UNCALIBRATED on c: shortest step");
}

// Of several reasons the most frequent with the sum of all; reasons why nothing fits each with its
// count, the most frequent first.
TEST_CASE("a sweep's counts say why points were left out") {
    SweepAnswer answer = sample_sweep();
    answer.counts.illegal = {{"a is odd", 3}, {"b is even", 1100}, {"c is c", 7}};
    answer.counts.infeasible = {{"too large", 2}, {"too slow", 5}};
    answer.counts.twins = 1;
    const std::string text = sweep_counts(answer);
    CHECK_THAT(text,
               Catch::Contains(
                   "            1,110 illegal, most of them: b is even (--json: all 3 reasons)\n"));
    CHECK_THAT(
        text,
        Catch::Contains(
            "                5 infeasible: too slow\n                2 infeasible: too large\n"));
    CHECK_THAT(
        text,
        Catch::Contains(
            "                1 of them as a twin: differs only in switches without effect\n"));
    answer.counts.illegal = {{"a is odd", 3}, {"b is even", 5}};
    CHECK_THAT(sweep_counts(answer),
               Catch::Contains(
                   "                8 illegal, most of them: b is even (--json: all 2 reasons)\n"));
    answer.counts.illegal.clear();
    CHECK_THAT(sweep_counts(answer), !Catch::Contains("illegal"));
}

TEST_CASE("the best of each machine stands with days, money, energy and what they rest on") {
    SweepAnswer answer = sample_sweep();
    answer.varied = {"machines", "parallelism.tp"};
    answer.each_of = {"machines"};
    answer.of_each = answer.best;
    for (SweepRow& row : answer.of_each) {
        row.settings = {{"machines", row.settings[0].second == "2" ? "8xa" : "16xb"},
                        {"parallelism.tp", "2"}};
        row.forecast.cluster = row.settings[0].second.substr(row.settings[0].second.find('x') + 1);
        Campaign c;
        c.tokens = 1e12;
        c.time = {Seconds(864'000), Seconds(950'400), Seconds(1'036'800)};
        c.money = {1e6, 1.1e6, 1.2e6};
        c.currency = "USD";
        c.offer.price_per_gpu_hour = 2.5;
        row.campaign = c;
    }
    answer.best = answer.of_each;
    answer.of_each[1].least_within = true;
    answer.within = Seconds(1'000'000);
    answer.of_each[0].campaign->energy = {Joules(1), Joules(2), Joules(3)};
    const Table table = rows_table(answer, answer.of_each);
    // time, money and energy sort by their medians
    const std::size_t last = table.columns.size() - 1;
    CHECK((table.rows[0][last - 2].value == 950'400 && table.rows[0][last - 1].value == 1.1e6 &&
           table.rows[0][last].value == 2));
    const std::string text = sweep_table(answer);
    CHECK_THAT(text, Catch::Contains("the best of each machines"));
    CHECK_THAT(text, Catch::Contains("11.0 d (10.0 .. 12.0)  1.10 M (1.00 .. 1.20)"));
    CHECK_THAT(text,
               Catch::Contains(
                   "8 ranks of b are the least that end within 11.6 d: 11.0 d (10.0 .. 12.0)"));
    CHECK_THAT(text, Catch::Contains("(not at the p90 of"));
    CHECK_THAT(
        text, Catch::Contains("8 GPUs of a: useful 100.0 %, no failures counted; 2.5 USD an hour"));
    answer.of_each[1].least_within = false;
    CHECK_THAT(sweep_table(answer), Catch::Contains("no configuration ends within 11.6 d"));
    const auto json = nlohmann::json::parse(to_json(answer));
    CHECK(json["of_each"][0]["training"]["time_s"]["p50"] == 950'400);
    CHECK(json["each_of"][0] == "machines");
}

TEST_CASE("a sweep's JSON has its best, its counts and whether they are proven") {
    const auto json = nlohmann::json::parse(to_json(sample_sweep()));
    CHECK(json["objective"] == "step");
    CHECK(json["top"].size() == 2);
    CHECK(json["top"][0]["settings"]["parallelism.tp"] == "2");
    CHECK(json["top"][0]["step_s"] == 0.1);
    CHECK(json["top"][0]["lower_bound_s"] == 0.098);
    CHECK(json["top"][0]["cost_per_token"].is_null());
    CHECK(json["counts"]["bounded_away"] == 5);
    CHECK(json["counts"]["infeasible"]["does not fit into the device's memory"] == 2);
    CHECK(json["proven"] == true);
    SweepAnswer front = sample_sweep();
    front.second = Objective::memory;
    front.broken_bounds = 1;
    const auto other = nlohmann::json::parse(to_json(front));
    CHECK(other["front"].size() == 2);
    CHECK_FALSE(other.contains("top"));
    CHECK(other["proven"] == false);
}
