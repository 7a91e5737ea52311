// Values of JSON reports, each different from the others, so that none can stand in another's
// place.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "reports/comparison_json.h"
#include "reports/explain_tables.h"
#include "reports/forecast_tables.h"
#include "reports/json.h"
#include "reports/json_parts.h"
#include "reports/sweep_json.h"
#include "tests/reports/samples.h"
#include "tests/reports/sweeps.h"

using namespace stepcast;
using samples::compared;
using Json = nlohmann::ordered_json;

namespace {

Campaign campaign_of_two_days() {
    Campaign c;
    c.tokens = 15e12;
    c.steps = 1e6;
    c.goodput = {Seconds(4000), Seconds(300), 0.875};
    c.time = {Seconds(100), Seconds(200), Seconds(400)};
    c.money = {1, 2, 4};
    c.energy = {Joules(8), Joules(16), Joules(32)};
    c.currency = "USD";
    c.offer = {"H100", 6.5, "a list", Watts(700), {}, {}, 1, "a datasheet"};
    return c;
}

const Json campaign_json{
    {"tokens", 15e12},
    {"steps", 1e6},
    {"time_s", {{"p10", 100.0}, {"p50", 200.0}, {"p90", 400.0}}},
    {"money", {{"p10", 1.0}, {"p50", 2.0}, {"p90", 4.0}}},
    {"energy_j", {{"p10", 8.0}, {"p50", 16.0}, {"p90", 32.0}}},
    {"currency", "USD"},
    {"price_per_gpu_hour", 6.5},
    {"price_source", "a list"},
    {"power_source", "a datasheet"},
    {"goodput", {{"share", 0.875}, {"failure_every_s", 4000.0}, {"checkpoint_every_s", 300.0}}}};

}  // namespace

TEST_CASE(
    "JSON is written with two blanks a level, letters as they are, what is no text replaced") {
    CHECK(json::text_of(Json{{"a", {1, "\u00e9"}}, {"b", "\xff"}}) ==
          "{\n  \"a\": [\n    1,\n    \"\u00e9\"\n  ],\n  \"b\": \"\ufffd\"\n}\n");
}

// 0.5 J a step of 1/8 s at 2048 tokens/s, which are 256 tokens: 1/512 J each. Whatever is above 0
// is known.
TEST_CASE("a forecast in JSON: every figure in its place") {
    Forecast f = samples::forecast();
    f.framework = "own";
    f.step = {Seconds(0.2), Seconds(0.0625), Seconds(0.125), Seconds(0.25)};
    f.forward = {Seconds(1), Seconds(2), Seconds(3), Seconds(4)};
    f.backward = {Seconds(5), Seconds(6), Seconds(7), Seconds(8)};
    f.gradient_sync = {Seconds(9), Seconds(10), Seconds(11), Seconds(12)};
    f.optimizer = {Seconds(13), Seconds(14), Seconds(15), Seconds(16)};
    f.phases = {Seconds(1), Seconds(2), Seconds(3), Seconds(4), Seconds(5)};
    f.breakdown = {Seconds(1), Seconds(2), Seconds(3), Seconds(4), Seconds(5), Seconds(6)};
    f.memory = {Bytes(1), Bytes(2), Bytes(3), Bytes(4),   Bytes(5), Bytes(6),
                Bytes(7), false,    0.25,     Bytes(0.5), Bytes(8)};
    f.doubts = {0.5, 0.25, 1.5, 2.5, 3.5, 4.5, {{"read so", 1.25}}};
    f.basis = {{"host", "host.call", false, 0.25}, {"gemm", "kernel.gemm_efficiency", true, 0.75}};
    f.tokens_per_second = 2048;
    f.energy = Joules(0.5);
    const auto four = [](double mean) {
        return Json{{"mean", mean}, {"p10", mean + 1}, {"p50", mean + 2}, {"p90", mean + 3}};
    };
    const Json j = Json::parse(to_json(f, std::nullopt, campaign_of_two_days()));
    CHECK(j["experiment"] == "moe_layer_mix_moe");
    CHECK(j["framework"] == "own");
    CHECK(j["cluster"] ==
          Json{{"name", "pcie-a100-x4"},
               {"calibrated", true},
               {"prior_share", 0.25},
               {"basis",
                {{{"kind", "host"}, {"key", "host.call"}, {"measured", false}, {"share", 0.25}},
                 {{"kind", "gemm"},
                  {"key", "kernel.gemm_efficiency"},
                  {"measured", true},
                  {"share", 0.75}}}}});
    CHECK(j["step_s"] == Json{{"mean", 0.2}, {"p10", 0.0625}, {"p50", 0.125}, {"p90", 0.25}});
    CHECK(j["forward_s"] == four(1));
    CHECK(j["backward_s"] == four(5));
    CHECK(j["gradient_sync_s"] == four(9));
    CHECK(j["optimizer_s"] == four(13));
    CHECK(j["phases_s"] ==
          Json{{"forward", 2.0}, {"backward", 3.0}, {"gradient_sync", 4.0}, {"optimizer", 5.0}});
    CHECK(j["breakdown_s"] == Json{{"compute", 1.0},
                                   {"memory", 2.0},
                                   {"exposed_communication", 3.0},
                                   {"bubble", 4.0},
                                   {"imbalance", 5.0},
                                   {"host", 6.0}});
    CHECK(j["memory_bytes"] == Json{{"peak", 1.0},
                                    {"weights", 2.0},
                                    {"gradients", 3.0},
                                    {"optimizer", 4.0},
                                    {"activations", 5.0},
                                    {"buffers", 6.0},
                                    {"overheads", 8.0},
                                    {"reserved", 7.0},
                                    {"capacity", 0.5}});
    CHECK(j["fits"] == false);
    CHECK(j["out_of_memory"] == 0.25);
    CHECK(j["interval_log"] == Json{{"constants_sigma", 0.5},
                                    {"hidden_sigma", 0.25},
                                    {"unseen_faster", 1.5},
                                    {"unseen_slower", 2.5},
                                    {"draws_faster", 3.5},
                                    {"draws_slower", 4.5},
                                    {"readings", {{{"what", "read so"}, {"step_ratio", 1.25}}}}});
    CHECK(j["energy_j"] == 0.5);
    CHECK(j["energy_j_per_token"] == 1.0 / 512);
    CHECK(j["tokens_per_s"] == 2048.0);
    CHECK(j["model_flops_utilization"] == 0.119);
    CHECK(j["causal_mask_counted"] == false);
    CHECK(j["ranks_simulated"] == 4);
    CHECK(j["draws"] == 200);
    CHECK(j["training"] == campaign_json);
    f.memory.capacity = Bytes(0);
    f.energy = {};
    Campaign unknown = campaign_of_two_days();
    unknown.money = {};
    unknown.energy = {};
    const Json none = Json::parse(to_json(f, std::nullopt, unknown));
    CHECK(none["memory_bytes"]["capacity"].is_null());
    CHECK(none["energy_j"].is_null());
    CHECK(none["energy_j_per_token"].is_null());
    CHECK(none["training"]["money"].is_null());
    CHECK(none["training"]["energy_j"].is_null());
}

TEST_CASE("an explanation in JSON: every figure in its place") {
    Explanation x;
    x.step = Seconds(10);
    x.path = {{"gemm", LinkLevel::none, false, Seconds(6), 120},
              {"all_reduce", LinkLevel::leaf, false, Seconds(2), 40},
              {"issue", LinkLevel::none, true, Seconds(1), 7},
              {"all_gather", LinkLevel::leaf, false, Seconds(0.5), 3}};
    x.slowest = {3, 1, Seconds(7), Seconds(1), Seconds(0.5), Seconds(0.25), Seconds(0.125)};
    x.median = {1, 1024, Seconds(6), Seconds(2), Seconds(0.75), Seconds(1.25), Seconds(0.375)};
    x.change = 0.2;
    x.elasticities = {{"gpu.peak.bf16", "989.4 TFLOP/s", Seconds(-0.5), Seconds(-0.75)}};
    x.uncertainties = {
        {"kernel.training_gemm", "0.78", Uncertainty::Source::prior, 0.5, Seconds(0.25), 0.75}};
    x.uncertainty = Seconds(0.3125);
    const auto idle = [](int rank, int stands, double busy, double bubble, double straggler,
                         double exposed, double host) {
        return Json{
            {"rank", rank},       {"stands_for", stands},     {"busy_s", busy},
            {"bubble_s", bubble}, {"straggler_s", straggler}, {"exposed_communication_s", exposed},
            {"host_s", host}};
    };
    const Json j = Json::parse(to_json(samples::forecast(), x))["explain"];
    CHECK(j["critical_path"][1] ==
          Json{{"kind", "all_reduce"}, {"link", "leaf"}, {"time_s", 2.0}, {"tasks", 40}});
    CHECK(j["critical_path_by_link_s"] == Json{{"node", 0.0}, {"leaf", 2.5}, {"spine", 0.0}});
    CHECK(j["critical_path_host_s"] == 1.0);
    CHECK(j["idle"] == Json{{"slowest", idle(3, 1, 7, 1, 0.5, 0.25, 0.125)},
                            {"median", idle(1, 1024, 6, 2, 0.75, 1.25, 0.375)}});
    CHECK(j["elasticity"]["more"] == 0.2);
    CHECK(j["elasticity"]["parameters"][0] == Json{{"key", "gpu.peak.bf16"},
                                                   {"value", "989.4 TFLOP/s"},
                                                   {"step_change_s", -0.5},
                                                   {"along_path_s", -0.75}});
    CHECK(j["measure_next"][0] == Json{{"key", "kernel.training_gemm"},
                                       {"value", "0.78"},
                                       {"known_from", "prior"},
                                       {"relative_error", 0.5},
                                       {"step_s", 0.25},
                                       {"share_of_variance", 0.75}});
    CHECK(j["uncertainty_s"] == 0.3125);
}

// Predicted 10 s, replayed 9, measured 8: cost error and schedule error 1/8 each.
TEST_CASE("a traced step in JSON, and a run's attribution") {
    const ErrorAttribution error{Seconds(10),
                                 Seconds(9),
                                 Seconds(8),
                                 {{"gemm", Phase::backward, Seconds(6), Seconds(5), Seconds(2)}}};
    const Json shown{{"predicted_s", 10.0},
                     {"replayed_s", 9.0},
                     {"measured_s", 8.0},
                     {"cost_error", 0.125},
                     {"schedule_error", 0.125},
                     {"kinds",
                      {{{"kind", "gemm"},
                        {"phase", "backward"},
                        {"predicted_s", 6.0},
                        {"measured_s", 5.0},
                        {"effect_s", 2.0}}}}};
    const Json j = Json::parse(to_json(
        TracedStep{"t", {{3, Seconds(1), Seconds(2), Seconds(3), Seconds(4)}}, error, {"\xff"}}));
    CHECK(j["trace"] == "t");
    CHECK(j["ranks"] == Json::array({Json{{"rank", 3},
                                          {"measured_span_s", 1.0},
                                          {"predicted_span_s", 2.0},
                                          {"measured_exposed_s", 3.0},
                                          {"predicted_exposed_s", 4.0}}}));
    CHECK(j["attribution"] == shown);
    CHECK(j["notes"].size() == 1);
    // as a table: one rank stands for all, two are summed up
    TracedStep traced{"t", {{3, Seconds(1), Seconds(2), Seconds(3), Seconds(4)}}, error, {}};
    CHECK_THAT(traced_table(traced), !Catch::Contains("\nall "));
    traced.ranks.push_back({4, Seconds(1), Seconds(2), Seconds(5), Seconds(4)});
    CHECK_THAT(traced_table(traced), Catch::Contains("\nall " + std::string(43, ' ') +
                                                     "  8000.0 ms     8000.0 ms    +0.0 %"));
    Comparison run = compared("a", "s", 8000, 10000, 9000, 11000);
    run.attribution = error;
    run.what.measured_phases = {{"optimizer", -1, Seconds(0)}, {"forward", -1, Seconds(4)}};
    run.forecast->forward.p50 = Seconds(5);
    run.forecast->optimizer.p50 = Seconds(1);
    run.what.measured_forward = Seconds(4);
    run.forecast->tokens_per_second = 64;
    run.forecast->gpus = 4;
    run.what.evidence = Evidence::fitted;
    run.what.experiment.framework.name = "own";
    run.what.experiment.cluster.gpus_per_node = 4;
    const Json row = Json::parse(to_json(summarise({run}), {run}))["rows"][0];
    CHECK(row["attribution"] == shown);
    CHECK(row["phases"] == Json::array({Json{{"phase", "optimizer"},
                                             {"rank", -1},
                                             {"measured_s", 0.0},
                                             {"predicted_s", 1.0},
                                             {"error", nullptr}},
                                        Json{{"phase", "forward"},
                                             {"rank", -1},
                                             {"measured_s", 4.0},
                                             {"predicted_s", 5.0},
                                             {"error", 0.25}}}));
    CHECK(row["error"] == 0.25);
    CHECK(row["p50_s"] == 10.0);
    CHECK(row["p90_s"] == 11.0);
    CHECK(row["measured_forward_s"] == 4.0);
    CHECK(row["predicted_forward_s"] == 5.0);
    CHECK(row["measured_mean_s"].is_null());
    CHECK(row["predicted_mean_s"] == 10.0);
    CHECK(row["tokens_per_s_per_gpu"] == 16.0);
    CHECK(row["held_out"] == false);
    CHECK(row["evidence"] == "fitted");
    CHECK(row["ranks"] == 4);
    CHECK(row["framework"] == "own");
    CHECK(row["cluster"] == Json{{"name", "plain-x4"},
                                 {"calibrated", false},
                                 {"prior_share", 0.0},
                                 {"basis", Json::array()}});
    CHECK(row["fits"] == true);
    run.what.evidence.reset();
    CHECK(Json::parse(to_json(summarise({run}), {run}))["rows"][0]["held_out"].is_null());
}

// Two configurations of 8 ranks, 4096 tokens in 0.1 and 0.2 s.
TEST_CASE("a sweep in JSON: every figure in its place") {
    SweepAnswer answer = sample_sweep();
    answer.framework = "own";
    SweepRow& first = answer.best[0];
    first.step = Seconds(0.125), first.lower = Seconds(0.0625), first.estimate = Seconds(0);
    first.forecast.step = {Seconds(1), Seconds(2), Seconds(3), Seconds(4)};
    first.forecast.model_flops_utilization = 0.5;
    first.forecast.model_flops_per_gpu = FlopsPerSecond(3e12);
    first.tokens_per_second = 64;
    first.peak = Bytes(1024);
    answer.best[1].cost_per_token = 0.25;
    answer.best[1].least_within = true;
    answer.best[1].behind = Behind{-0.5, 0.25, 0.75, false};
    answer.best[1].campaign = campaign_of_two_days();
    answer.scaling = {first};
    answer.counts.twins = 1;
    const Json j = Json::parse(to_json(answer));
    CHECK(j["cluster"] == Json{{"name", "dgx"}, {"calibrated", true}});
    CHECK(j["objective"] == "step");
    CHECK(j["second_objective"].is_null());
    CHECK(j["work_differs"] == false);
    CHECK(j["one_routing"] == false);
    CHECK(j["varied"] == Json{"parallelism.tp", "parallelism.zero"});
    CHECK(j["top"][0] ==
          Json{{"settings", {{"parallelism.tp", "2"}, {"parallelism.zero", "1"}}},
               {"step_s", 0.125},
               {"lower_bound_s", 0.0625},
               {"estimate_s", nullptr},
               {"interval_s", {{"mean", 1.0}, {"p10", 2.0}, {"p50", 3.0}, {"p90", 4.0}}},
               {"tokens_per_s", 64.0},
               {"tokens_per_s_per_gpu", 8.0},
               {"model_flops_utilization", 0.5},
               {"model_tflops_per_gpu", 3.0},
               {"masked_flops_utilization", 0.0},
               {"peak_bytes", 1024.0},
               {"within_margin", false},
               {"out_of_memory", 0.0},
               {"gap", 0},
               {"vp_alike", nullptr},
               {"cost_per_token", nullptr},
               {"ranks", 8}});
    CHECK(j["top"][1]["estimate_s"] == 0.2);
    CHECK(j["top"][1]["cost_per_token"] == 0.25);
    CHECK(j["top"][1]["least_within"] == true);
    CHECK(j["top"][1]["training"] == campaign_json);
    CHECK(j["top"][1]["behind_first"] ==
          Json{{"p10", -0.5}, {"p50", 0.25}, {"p90", 0.75}, {"distinguishable", false}});
    CHECK(j["scaling"] == Json::array({j["top"][0]}));
    CHECK(j["of_each"] == Json::array());
    CHECK(j["counts"] == Json{{"points", 12},
                              {"legal", 9},
                              {"feasible", 7},
                              {"bounded_away", 5},
                              {"simulated", 2},
                              {"twins", 1},
                              {"within_margin", 0},
                              {"illegal", {{"tp does not divide workload.heads", 3}}},
                              {"infeasible", {{"does not fit into the device's memory", 2}}}});
    CHECK(j["proven"] == true);
    CHECK(j["proof"] == proof_text(answer));
    answer.second = Objective::memory;
    answer.broken_bounds = 1;
    const Json front = Json::parse(to_json(answer));
    CHECK_FALSE(front.contains("top"));
    CHECK(front["front"].size() == 2);
    CHECK(front["second_objective"] == "memory");
    CHECK(front["proven"] == false);
}

// Nothing was accepted of 10 and 30 ms: both count, the median is 20.
TEST_CASE("a measurement in JSON: every figure in its place") {
    Measurement m = samples::measurement();
    m.steps.resize(2);
    m.steps[0].accepted = false;
    const Json j = Json::parse(to_json("host_moe", m));
    CHECK(j["step_s"]["median"] == Approx(0.02));
    CHECK(j["step_s"]["mean"] == Approx(0.02));
    CHECK(j["accepted"] == 0);
    CHECK(j["steps"] == 2);
    CHECK(j["warmup"] == 3);
    CHECK(j["idle_share"] == 0.98);
    CHECK(j["device"] == "host, 2 ranks as threads");
    CHECK(j["date"] == "2026-01-02");
    CHECK(j["versions"] == Json{"OpenBLAS 0.3.21"});
    CHECK(j["samples"][1] == Json{{"step_s", 30e-3},
                                  {"forward_s", 30 * 0.25 * 1e-3},
                                  {"backward_s", 30 * 0.5 * 1e-3},
                                  {"gradient_sync_s", 30 * 0.25 * 1e-3},
                                  {"optimizer_s", 0.0},
                                  {"accepted", false},
                                  {"cpu_share", 0.4}});
    CHECK(Json::parse(to_json("x", Measurement{}))["phases_s"].is_null());
}

// Every row of the table: 0.5 s of which 1/4 forward, 1/8 backward, 1/16 exchange, 1/32 optimizer;
// parts of 1 to 6 ms.
TEST_CASE("columns beside each other have every row that says something") {
    ForecastColumn c{"a", samples::forecast(), campaign_of_two_days()};
    c.forecast.step = {Seconds(0.5), Seconds(0.5), Seconds(0.5), Seconds(0.5)};
    c.forecast.phases = {Seconds(0.5), Seconds(0.125), Seconds(0.0625), Seconds(0.03125),
                         Seconds(0.015625)};
    c.forecast.breakdown = {Seconds(1e-3), Seconds(2e-3), Seconds(3e-3),
                            Seconds(4e-3), Seconds(5e-3), Seconds(6e-3)};
    c.forecast.memory.fits = false;
    std::vector<std::string> rows;
    for (const auto& row : columns_of({c}).rows) rows.push_back(row[0].text + " | " + row[1].text);
    CHECK(rows == std::vector<std::string>{"cluster | pcie-a100-x4",
                                           "step | 500.0 ms",
                                           "  against the first | +0.0 %",
                                           "tokens/s | 1,472,719",
                                           "MFU, unmasked | 11.9 %",
                                           "forward | 125.0 ms",
                                           "backward | 62.50 ms",
                                           "gradient sync | 31.25 ms",
                                           "optimizer | 15.62 ms",
                                           "compute | 1.00 ms",
                                           "memory-bound kernels | 2.00 ms",
                                           "exposed communication | 3.00 ms",
                                           "pipeline bubble | 4.00 ms",
                                           "imbalance | 5.00 ms",
                                           "host | 6.00 ms",
                                           "highest peak memory | 1.50 GiB",
                                           "  fits | NO",
                                           "training, time | 3.3 min (1.7 .. 6.7)",
                                           "  money | 2 (1 .. 4)",
                                           "  energy, at most | 0.00 kWh"});
    c.forecast.calibrated = false;
    CHECK(columns_of({c}).rows[0][1].text == "pcie-a100-x4, uncalibrated");
}
