#include <cmath>
#include <limits>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "reports/comparison_json.h"
#include "reports/json.h"
#include "tests/reports/samples.h"

using namespace stepcast;
using samples::compared;
using Json = nlohmann::ordered_json;

namespace {

std::vector<std::string> keys_of(const Json& object) {
    std::vector<std::string> keys;
    for (auto item = object.begin(); item != object.end(); ++item) keys.push_back(item.key());
    return keys;
}
using Keys = std::vector<std::string>;

}  // namespace

TEST_CASE("A forecast as JSON has the fixed layout, in SI units") {
    const Json j = Json::parse(to_json(samples::forecast()));
    CHECK(keys_of(j) == Keys{"experiment",
                             "cluster",
                             "framework",
                             "split",
                             "step_s",
                             "phases_s",
                             "breakdown_s",
                             "memory_bytes",
                             "fits",
                             "out_of_memory",
                             "tokens_per_s",
                             "tokens_per_s_per_gpu",
                             "model_flops_utilization",
                             "model_tflops_per_gpu",
                             "masked_flops_utilization",
                             "causal_mask_counted",
                             "interval_log",
                             "energy_j",
                             "energy_j_per_token",
                             "tasks",
                             "ranks_simulated",
                             "draws",
                             "forward_s",
                             "backward_s",
                             "gradient_sync_s",
                             "optimizer_s",
                             "kernels_s",
                             "notes"});
    CHECK(j["cluster"] == Json{{"name", "pcie-a100-x4"},
                               {"calibrated", true},
                               {"prior_share", nullptr},
                               {"basis", Json::array()}});
    CHECK(keys_of(j["step_s"]) == Keys{"mean", "p10", "p50", "p90"});
    CHECK(j["step_s"]["p90"].get<double>() == Approx(0.02532));
    CHECK(keys_of(j["phases_s"]) == Keys{"forward", "backward", "gradient_sync", "optimizer"});
    CHECK(keys_of(j["breakdown_s"]) ==
          Keys{"compute", "memory", "exposed_communication", "bubble", "imbalance", "host"});
    CHECK(keys_of(j["memory_bytes"]) == Keys{"peak", "weights", "gradients", "optimizer",
                                             "activations", "buffers", "overheads", "reserved",
                                             "capacity"});
    CHECK(j["memory_bytes"]["peak"] == 1.5 * 1073741824);
    CHECK(j["fits"] == true);
    CHECK(j["tasks"] == 1234);
    CHECK(j["tokens_per_s_per_gpu"].get<double>() == Approx(1472719.1 / 4));
    CHECK(j["model_tflops_per_gpu"].get<double>() == Approx(37.1));
    CHECK(j["forward_s"]["p50"].get<double>() == Approx(0.01075));
    REQUIRE(j["kernels_s"]["AG"].size() == 2);
    CHECK(j["kernels_s"]["AG"][1] == Json{{"rank", 1}, {"phase", "forward"}, {"time_s", 1.7e-3}});
}

TEST_CASE("What is not finite is null, and a name that is no UTF-8 is no obstacle") {
    Forecast f = samples::forecast();
    f.step.mean = Seconds(std::nan(""));
    f.tokens_per_second = std::numeric_limits<double>::infinity();
    f.notes = {remark("\xff"), remark("2 \xc2\xb5s")};  // microseconds, as they stand
    CHECK(to_json(f).find("2 \xc2\xb5s") != std::string::npos);
    const Json j = Json::parse(to_json(f));
    CHECK(j["step_s"]["mean"].is_null());
    CHECK(j["tokens_per_s"].is_null());
}

// 110/100 - 1 = +10 %; 100 lies in [95, 120].
TEST_CASE("A comparison as JSON has summary, refusals with reasons and one row a case") {
    std::vector<Comparison> all{compared("a", "s", 100, 110, 95, 120),
                                samples::refused("r", "no preset")};
    all[0].what.assumptions = {"routing assumed"};
    all[0].what.evidence = Evidence::unseen;
    const Json j = Json::parse(to_json(summarise(all), all));
    CHECK(j["cases"] == 2);
    CHECK(j["predicted"] == 1);
    CHECK(j["refused_count"] == 1);
    CHECK(j["refused"] ==
          Json::array({Json{{"case_id", "r"}, {"source", "cases.csv"}, {"reason", "no preset"}}}));
    for (const char* key : {"mape", "median_ape", "p90_ape", "bias"})
        CHECK(j[key].get<double>() == Approx(0.1));
    CHECK(j["inside_interval"] == 1.0);
    CHECK(j["rank_correlation"].is_null());
    REQUIRE(j["rows"].size() == 2);
    const Json &row = j["rows"][0], &other = j["rows"][1];
    CHECK(keys_of(row) == keys_of(other));
    CHECK(row["case_id"] == "a");
    CHECK(row["measured_s"].get<double>() == Approx(0.1));
    CHECK(row["predicted_s"].get<double>() == Approx(0.11));
    CHECK(row["p10_s"].get<double>() == Approx(0.095));
    CHECK(row["ape"].get<double>() == Approx(0.1));
    CHECK(row["inside"] == true);
    CHECK(row["held_out"] == true);
    CHECK(row["evidence"] == "unseen");
    CHECK(row["assumptions"] == Json::array({"routing assumed"}));
    CHECK(row["refused_because"].is_null());
    CHECK(other["refused_because"] == "no preset");
    CHECK(other["predicted_s"].is_null());
    CHECK(other["inside"].is_null());
    CHECK(other["measured_s"].is_null());
    CHECK(j["held_out"]["predicted"] == 1);
    CHECK(j["unseen"]["predicted"] == 1);
    CHECK(j["seen"]["predicted"] == 0);
    CHECK(j["held_out"]["mape"].get<double>() == Approx(0.1));
    CHECK(j["fitted"]["predicted"] == 0);
    CHECK(j["fitted"]["mape"].is_null());
}

// 11 GB of 10 measured.
TEST_CASE("A row as JSON has measured and predicted peak memory, null where it is not known") {
    std::vector<Comparison> all{compared("a", "s", 100, 110, 95, 120),
                                compared("b", "s", 100, 110, 95, 120)};
    all[0].what.measured_peak = Bytes(10e9);
    all[0].forecast->memory.peak = Bytes(11e9);
    const Json j = Json::parse(to_json(summarise(all), all));
    CHECK(j["peak_mape"].get<double>() == Approx(0.1));
    CHECK(j["with_peak"] == 1);
    CHECK(j["rows"][0]["measured_peak_bytes"] == 10e9);
    CHECK(j["rows"][0]["predicted_peak_bytes"] == 11e9);
    CHECK(j["rows"][0]["peak_error"].get<double>() == Approx(0.1));
    CHECK(j["rows"][1]["measured_peak_bytes"].is_null());
    CHECK(j["rows"][1]["peak_error"].is_null());
}

TEST_CASE("A comparison that predicted nothing has null errors, not zeros") {
    const std::vector<Comparison> all{samples::refused("r", "why")};
    const Json j = Json::parse(to_json(summarise(all), all));
    CHECK(j["mape"].is_null());
    CHECK(j["inside_interval"].is_null());
    CHECK(j["peak_mape"].is_null());
}

// Accepted 10, 12, 11 ms: mean 11, median 11; p10 lies at position 0.2 of {10, 11, 12}: 10.2; p90
// at 1.8: 11.8.
TEST_CASE("A measurement as JSON sums up its accepted samples and keeps all") {
    const Json j = Json::parse(to_json("host_moe", samples::measurement()));
    CHECK(j["experiment"] == "host_moe");
    CHECK(keys_of(j["step_s"]) == Keys{"mean", "p10", "p50", "p90", "median"});
    CHECK(j["step_s"]["mean"].get<double>() == Approx(0.011));
    CHECK(j["step_s"]["p10"].get<double>() == Approx(0.0102));
    CHECK(j["step_s"]["p90"].get<double>() == Approx(0.0118));
    CHECK(j["phases_s"]["backward"].get<double>() == Approx(0.0055));
    CHECK(j["accepted"] == 3);
    CHECK(j["steps"] == 4);
    REQUIRE(j["samples"].size() == 4);
    CHECK(j["samples"][1]["accepted"] == false);
    CHECK(j["samples"][1]["forward_s"].get<double>() == Approx(0.0075));
    CHECK(j["quiet"] == true);
    CHECK(j["warnings"].size() == 1);
    CHECK(Json::parse(to_json("x", Measurement{}))["step_s"].is_null());
}
