#include <filesystem>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "model/base/errors.h"
#include "reports/explain_tables.h"
#include "reports/json.h"
#include "reports/step_plots.h"
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

namespace {

std::vector<std::vector<std::string>> texts_of(const Table& table) {
    std::vector<std::vector<std::string>> rows;
    for (const auto& row : table.rows) {
        auto& texts = rows.emplace_back();
        for (const Cell& cell : row) texts.push_back(cell.text);
    }
    return rows;
}

}  // namespace

// Of 10 s: kinds of 0.7, 1.1 and 1.3 s; links of one level, devices and hosts each summed up.
// Twelve parameters and five uncertainties at most.
TEST_CASE("an explanation's tables: every figure in its place") {
    using Texts = std::vector<std::vector<std::string>>;
    Explanation x;
    x.step = Seconds(10);
    x.path = {{"grouped_gemm", LinkLevel::none, false, Seconds(0.7), 3},
              {"all_reduce", LinkLevel::leaf, false, Seconds(1.1), 5},
              {"send_recv", LinkLevel::leaf, false, Seconds(1.3), 7},
              {"cast", LinkLevel::none, false, Seconds(1.7), 1},
              {"host_work", LinkLevel::none, true, Seconds(1.9), 2},
              {"issue", LinkLevel::none, true, Seconds(2.3), 4}};
    x.slowest = {3, 1, Seconds(7), Seconds(1), Seconds(0.5), Seconds(0.25), Seconds(0.125)};
    x.median = {5, 2, Seconds(6), Seconds(2), Seconds(0.75), Seconds(1.25), Seconds(0.375)};
    x.change = 0.3;
    x.elasticities.assign(14, {"gpu.memory", "1 B", Seconds(0), Seconds(0.75)});
    x.elasticities[0] = {"gpu.peak.bf16", "7 FLOP/s", Seconds(-0.5), Seconds(0)};
    x.without_effect = {"a", "b", "c"};
    x.uncertainties.assign(7, {"k", "2", Uncertainty::Source::prior, 0.7, Seconds(0.3), 0.2});
    x.uncertainties[0] = {"host.call", "2 us", Uncertainty::Source::fitted, 0.5, Seconds(0.2), 0.4};
    x.uncertainties[1].source = Uncertainty::Source::assumed;
    x.uncertainty = Seconds(0.9);
    const std::vector<Table> tables = explanation_tables(x);
    REQUIRE(tables.size() == 5);
    CHECK(texts_of(tables[0]) == Texts{{"grouped gemm", "700.0 ms", "7.0 %", "3"},
                                       {"all reduce, between nodes", "1100.0 ms", "11.0 %", "5"},
                                       {"send recv, between nodes", "1300.0 ms", "13.0 %", "7"},
                                       {"cast", "1700.0 ms", "17.0 %", "1"},
                                       {"host: framework's work", "1900.0 ms", "19.0 %", "2"},
                                       {"host: issuing kernels", "2300.0 ms", "23.0 %", "4"}});
    CHECK(texts_of(tables[1]) == Texts{{"devices", "2400.0 ms", "24.0 %"},
                                       {"links between nodes", "2400.0 ms", "24.0 %"},
                                       {"hosts", "4200.0 ms", "42.0 %"}});
    CHECK(tables[2].columns[1].name == "slowest 3");
    CHECK(tables[2].columns[3].name == "median 5 (of 2 alike)");
    CHECK(texts_of(tables[2]) ==
          Texts{{"pipeline bubble", "1000.0 ms", "10.0 %", "2000.0 ms", "20.0 %"},
                {"straggler", "500.0 ms", "5.0 %", "750.0 ms", "7.5 %"},
                {"exposed communication", "250.0 ms", "2.5 %", "1250.0 ms", "12.5 %"},
                {"host", "125.0 ms", "1.2 %", "375.0 ms", "3.8 %"},
                {"idle in all", "3000.0 ms", "30.0 %", "4000.0 ms", "40.0 %"}});
    CHECK(tables[3].columns[0].name == "30 % more of");
    REQUIRE(tables[3].rows.size() == 12);
    CHECK(texts_of(tables[3])[0] ==
          std::vector<std::string>{"gpu.peak.bf16", "7 FLOP/s", "-5.00 %", "0"});
    CHECK(texts_of(tables[3])[11] == std::vector<std::string>{"gpu.memory", "1 B", "0", "+7.50 %"});
    CHECK(tables[3].rows[1][3].value == 0.075);
    CHECK(tables[3].rows[0][2].value == -0.05);
    CHECK(tables[3].below == "2 more change it by less, 3 not at all");
    REQUIRE(tables[4].rows.size() == 5);
    CHECK(texts_of(tables[4])[0] ==
          std::vector<std::string>{"host.call", "2 us", "fitted", "50.0 %", "200.0 ms", "40.0 %"});
    CHECK(texts_of(tables[4])[1][2] == "never fitted");
    CHECK(texts_of(tables[4])[4] ==
          std::vector<std::string>{"k", "2", "not determined", "70.0 %", "300.0 ms", "20.0 %"});
    CHECK(tables[4].below == "all 7 together: step +- 900.0 ms (9.0 %), one standard deviation");
    CHECK(explanation_table(x).find("\nmeasure this next: host.call\nuncertain") !=
          std::string::npos);
    x.uncertainties.clear();
    CHECK(explanation_tables(x).size() == 4);
    CHECK(explanation_table(x).ends_with(
        "\nmeasure this next: nothing, no parameter of this step is uncertain\n"));
    x.step = Seconds(0.5);
    CHECK(texts_of(explanation_tables(x)[0])[0][2] == "140.0 %");
    x.step = Seconds(0);  // of no step there are no shares
    CHECK(texts_of(explanation_tables(x)[0])[0][2] == "0.0 %");
}

TEST_CASE("elasticities are plotted as bars, and nothing to plot is said") {
    const std::string folder = samples::temporary_folder("elasticity");
    plot_elasticities(explanation(), "Llama on H100", folder + "/elasticity");
    CHECK(std::filesystem::file_size(folder + "/elasticity.png") > 5000);
    CHECK(std::filesystem::exists(folder + "/elasticity.svg"));
    CHECK_THROWS_AS(plot_elasticities(Explanation{}, "none", folder + "/none"), ConfigError);
}
