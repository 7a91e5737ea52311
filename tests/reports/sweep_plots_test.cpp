#include "reports/sweep_plots.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "model/errors.h"
#include "reports/sweep_page.h"
#include "tests/reports/samples.h"
#include "tests/reports/sweeps.h"

using namespace stepcast;

namespace {

std::string text_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

}  // namespace

TEST_CASE("a sweep's folder has its tables and the plots that it allows") {
    const std::string folder = samples::temporary_folder("sweep_plots");
    CHECK(plot_sweep(sample_sweep(), folder) == std::vector<std::string>{"map.png"});
    SweepAnswer answer = sample_sweep();
    answer.second = Objective::memory;
    answer.scaling = answer.best;
    answer.scaling[1].ranks = 16;
    write_sweep(folder, answer);
    for (const char* plot : {"map", "front", "scaling"}) {
        CHECK(std::filesystem::file_size(folder + "/" + plot + ".png") > 5000);
        CHECK_THAT(text_of(folder + "/summary.md"), Catch::Contains(std::string("(") + plot + ".png)"));
    }
    // the cell without a feasible configuration has no number; the others in milliseconds
    const std::string map = text_of(folder + "/map.svg");
    for (const char* number : {">300<", ">100<", ">200<"}) CHECK_THAT(map, Catch::Contains(number));
    CHECK_THAT(text_of(folder + "/scaling.svg"), Catch::Contains("p10..p90"));
    CHECK_THAT(text_of(folder + "/front.svg"), Catch::Contains("peak memory of a rank [GiB]"));
    CHECK_THAT(text_of(folder + "/top.csv"), Catch::StartsWith("parallelism.tp,parallelism.zero,step_s,") &&
                                                 Catch::Contains("\n2,1,0.1,0.05,0.125,"));
}

TEST_CASE("a sweep's plots say what they lack") {
    SweepAnswer answer = sample_sweep();
    answer.map = {};
    CHECK_THROWS_WITH(plot_heat_map(answer, "map"), Catch::Contains("expected two varied keys"));
    CHECK_THROWS_WITH(plot_front(answer, "front"), Catch::Contains("expected two objectives"));
    CHECK_THROWS_WITH(plot_scaling(answer, "scaling"), Catch::Contains("expected two numbers of ranks"));
    CHECK(plot_sweep(answer, "nowhere").empty());
}
