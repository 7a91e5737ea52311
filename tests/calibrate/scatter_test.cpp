#include "calibrate/scatter.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "tests/truth.h"

using namespace stepcast;

namespace {

ScatterRow row(const std::string& framework, const std::string& model, double off) {
    ScatterRow r;
    r.what.series = model;
    r.what.experiment.workload.name = model;
    r.what.experiment.framework.name = framework;
    r.what.experiment.cluster.gpu.name = "A100";
    r.what.measured_step = Seconds(std::exp(off));
    r.forecast.step = {Seconds(1), Seconds(1), Seconds(1), Seconds(1)};
    r.off = off;
    return r;
}

double share_inside(const std::vector<BlockErrors>& blocks) {
    double inside = 0, rows = 0;
    for (const BlockErrors& block : blocks) {
        inside += block.inside;
        rows += static_cast<double>(block.errors.size());
    }
    return inside / rows;
}

// Tables of measured steps: neither kernels nor memory.
std::vector<std::string> step_tables() {
    std::vector<std::string> paths;
    for (const auto& file : std::filesystem::directory_iterator(truth_folder())) {
        const std::string name = file.path().filename().string();
        const bool other = name.starts_with("atlas_") || name.starts_with("comm_") || name.starts_with("gemm") ||
                           name.starts_with("kernels_") || name.ends_with("_memory.csv");
        if (!other && name.ends_with(".csv")) paths.push_back(file.path().string());
    }
    std::ranges::sort(paths);
    return paths;
}

}  // namespace

// Offs -0.1 .. 0.9 in steps of 0.1: of eleven rows one may lie beyond either end (a tenth of eleven is 1.1). 0.9 lies beyond
// 0.8, -0.1 beyond 0.
TEST_CASE("a tenth of a pair's rows lies beyond its scatter on either side") {
    std::vector<ScatterRow> rows;
    for (int i = -1; i <= 9; ++i) rows.push_back(row("trainer", "model " + std::to_string(i % 2), 0.1 * i));
    const ScatterTable table = fit_scatter(rows, std::vector<bool>(rows.size(), true));
    REQUIRE(table.groups.size() == 1);
    CHECK(table.groups[0].rows == 11);
    CHECK(table.groups[0].scatter.slower == Approx(0.8).margin(2e-4));
    CHECK(table.groups[0].scatter.faster == Approx(0).margin(2e-4));
    // constants that reach to p90 = 0.48 explain a part: 0.64^2 + 0.48^2 = 0.8^2
    for (ScatterRow& r : rows) r.forecast.doubts.constants = 0.48 / p90_of_normal;
    CHECK(fit_scatter(rows, std::vector<bool>(rows.size(), true)).groups[0].scatter.slower == Approx(0.64).margin(2e-4));
}

// Medians 0, 0.1 .. 1 of eleven frameworks: a tenth of them lies above 0.9 and none is below 0.
TEST_CASE("a framework that nobody measured is as far off as the medians of frameworks are apart") {
    std::vector<ScatterRow> rows;
    for (int i = 0; i <= 10; ++i)
        for (int n = 0; n < 3; ++n) rows.push_back(row("trainer " + std::to_string(i), "model", 0.1 * i));
    const ScatterTable table = fit_scatter(rows, std::vector<bool>(rows.size(), true));
    CHECK(table.frameworks.slower == Approx(0.9));
    CHECK(table.frameworks.faster == 0);
}

TEST_CASE("intervals hold for 72 to 88 % of all published steps, as shipped and by blocks left out (where shared/truth is)") {
    if (truth_is_absent()) return;
    const std::vector<ScatterRow> rows = scatter_rows(step_tables());
    double inside = 0;
    for (const ScatterRow& r : rows)
        inside += r.forecast.step.p10 <= r.what.measured_step && r.what.measured_step <= r.forecast.step.p90 ? 1 : 0;
    inside /= static_cast<double>(rows.size());
    CHECK(inside >= 0.72);
    CHECK(inside <= 0.88);
    for (const LeftOut by : {LeftOut::model, LeftOut::framework, LeftOut::ranks}) {
        const double share = share_inside(leave_out_scatter(rows, by));
        CAPTURE(static_cast<int>(by), share);
        CHECK(share >= 0.68);
        CHECK(share <= 0.88);
    }
}
