#include "reports/sweep_tables.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "reports/json.h"
#include "tests/reports/sweeps.h"

using namespace stepcast;

TEST_CASE("a sweep's table has the varied keys, what is common beneath, counts, reasons and the proof") {
    CHECK(sweep_table(sample_sweep()) == R"(gpt on dgx, calibrated: shortest step

   tp      step  tokens/s     MFU    memory   bound
1   2  100.0 ms    40,960  50.0 %  4.00 GiB  -2.0 %
2   4  200.0 ms    20,480  25.0 %  2.00 GiB  -1.0 %
all of them: zero = 1

               12 points asked for
                9 legal
                7 feasible
                5 bounded away: by their lower bound no better
                2 simulated
                2 infeasible: does not fit into the device's memory
                3 illegal: tp does not divide workload.heads
only where step < 1 s
proven: the best 2 of 7 feasible configurations; 2 were simulated, each of the other 5 has a lower bound that
  is no better
)");
}

TEST_CASE("costs, fronts, sizes and broken bounds show in a sweep's table") {
    SweepAnswer answer = sample_sweep();
    for (SweepRow& row : answer.best) row.cost_per_token = 2e-6;
    answer.second = Objective::cost;
    answer.scaling = answer.best;
    answer.broken_bounds = 1;
    const std::string text = sweep_table(answer);
    CHECK_THAT(text, Catch::Contains("Pareto front of shortest step and cheapest tokens"));
    CHECK_THAT(text, Catch::Contains("cost/M tokens"));
    CHECK_THAT(text, Catch::Contains("the best of each number of ranks"));
    CHECK_THAT(text, Catch::Contains("NOT proven: 1 of 2 simulated configurations were faster than their lower bound"));
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
