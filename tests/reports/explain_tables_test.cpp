#include "reports/explain_tables.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/errors.h"
#include "reports/elasticity_plot.h"
#include "reports/json.h"
#include "tests/reports/samples.h"

using namespace stepcast;
using samples::golden;

namespace {

Explanation explanation() {
    Explanation x;
    x.step = Seconds(10);
    x.path = {{"gemm", LinkLevel::none, false, Seconds(6), 120},
              {"all_reduce", LinkLevel::node, false, Seconds(2), 40},
              {"reduce_scatter", LinkLevel::spine, false, Seconds(1), 2},
              {"issue", LinkLevel::none, true, Seconds(1), 7}};
    x.slowest = {3, 1, Seconds(7), Seconds(1), Seconds(0.5), Seconds(1), Seconds(0.5)};
    x.median = {1, 1024, Seconds(6), Seconds(2), Seconds(0.5), Seconds(1), Seconds(0.5)};
    x.elasticities = {{"gpu.peak.bf16", "989.4 TFLOP/s", Seconds(-0.5), Seconds(-0.55)},
                      {"link.intra.latency", "2 us", Seconds(0.01), Seconds(0.01)}};
    x.without_effect = {"kernel.fused_ramp"};
    x.uncertainties = {
        {"kernel.training_gemm", "0.78", Uncertainty::Source::fitted, 0.03, Seconds(0.2), 0.8},
        {"link.intra.latency", "2 us", Uncertainty::Source::assumed, 0.5, Seconds(0.1), 0.2},
    };
    x.uncertainty = Seconds(0.2236);
    return x;
}

}  // namespace

TEST_CASE("an explanation keeps its text") {
    const std::string text = explanation_table(explanation());
    CHECK(text.starts_with("why: one step of 10.00 s without noise\n"));
    CHECK(text == golden("explanation.txt", text));
}

// 2 s on links of a node, 1 s across the spine, 1 s of the host.
TEST_CASE("a forecast in JSON carries its explanation only where there is one") {
    using Json = nlohmann::json;
    CHECK_FALSE(Json::parse(to_json(samples::forecast())).contains("explain"));
    const Json x = Json::parse(to_json(samples::forecast(), explanation()))["explain"];
    CHECK(x["step_s"] == 10.0);
    CHECK(x["critical_path"].size() == 4);
    CHECK(x["critical_path_by_link_s"] == Json{{"node", 2.0}, {"leaf", 0.0}, {"spine", 1.0}});
    CHECK(x["critical_path_host_s"] == 1.0);
    CHECK(x["idle"]["median"]["stands_for"] == 1024);
    CHECK(x["idle"]["slowest"]["straggler_s"] == 0.5);
    CHECK(x["elasticity"]["parameters"][0]["key"] == "gpu.peak.bf16");
    CHECK(x["elasticity"]["parameters"][0]["step_change_s"] == -0.5);
    CHECK(x["elasticity"]["without_effect"] == Json::array({"kernel.fused_ramp"}));
    CHECK(x["measure_next"][0]["key"] == "kernel.training_gemm");
    CHECK(x["measure_next"][1]["known_from"] == "assumed");
}

TEST_CASE("elasticities are plotted as bars, and nothing to plot is said") {
    const std::string folder = samples::temporary_folder("elasticity");
    plot_elasticities(explanation(), "Llama on H100", folder + "/elasticity");
    CHECK(std::filesystem::file_size(folder + "/elasticity.png") > 5000);
    CHECK(std::filesystem::exists(folder + "/elasticity.svg"));
    CHECK_THROWS_AS(plot_elasticities(Explanation{}, "none", folder + "/none"), ConfigError);
}
