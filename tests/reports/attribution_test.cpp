#include <filesystem>

#include <catch2/catch.hpp>

#include "model/base/errors.h"
#include "reports/error_plots.h"
#include "reports/explain_tables.h"
#include "tests/literals.h"
#include "tests/reports/samples.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

// 110 ms predicted, 105 ms replayed, 100 ms measured: cost error (110 - 105) / 100, schedule error
// 105 / 100 - 1.
ErrorAttribution sample() {
    return {110_ms,
            105_ms,
            100_ms,
            {{"gemm", Phase::forward, 66_ms, 60_ms, 6_ms},
             {"all_reduce", Phase::gradient_sync, 9_ms, 10_ms, -1_ms}}};
}

}  // namespace

TEST_CASE("the table says both errors and each kind's share of the step") {
    const std::string text = attribution_table("run", sample());
    CHECK(text.starts_with("run: cost error +5.0 %, schedule error +5.0 %"));
    CHECK(text.find("gemm, forward ") != std::string::npos);
    CHECK(text.find("+10.0 %        +6.0 %") != std::string::npos);  // 66 / 60, 6 / 100
    CHECK(text.find("-10.0 %        -1.0 %") != std::string::npos);  // 9 / 10, -1 / 100
}

TEST_CASE("the plot of runs is written, and refused without any") {
    const std::string folder = samples::temporary_folder("attribution");
    Comparison run = samples::compared("run", "mlp", 100, 110, 110, 110);
    CHECK_FALSE(plot_attribution({run}, "Runs", folder + "/plot"));
    run.attribution = sample();
    plot_attribution({run}, "Runs", folder + "/plot");
    CHECK(std::filesystem::file_size(folder + "/plot.png") > 5000);
}
