// Memory as published tables measured it, against sim/memory.
#include <catch2/catch.hpp>
#include <cmath>

#include "import/tables/cases.h"
#include "sim/memory/memory.h"
#include "tests/model/files.h"
#include "tests/truth.h"

using namespace stepcast;

TEST_CASE("measured peaks of simumax_b200.csv are met within 5 % (where shared/truth is there)") {
    const std::string file = truth_file("simumax_b200.csv");
    if (is_absent(file, "simumax_b200.csv")) return;
    const TestFolder folder;
    const std::string cluster = folder.write("b200.toml", R"(
name = "eight-b200"
nodes = 1
gpus_per_node = 8
[gpu]
name = "B200"
memory = "180 GiB"
memory_bandwidth = "8 TB/s"
[gpu.peak]
bf16 = "2250 TFLOP/s"
[link.intra]
bandwidth = "900 GB/s"
)");
    int compared = 0;
    for (const CaseRow& row : read_cases(file)) {
        const Case found = case_of(row, cluster);
        if (!found.measured_peak) continue;
        CAPTURE(found.case_id);
        CHECK(transformer_memory(found.experiment).peak / *found.measured_peak ==
              Approx(1).margin(0.05));
        ++compared;
    }
    CHECK(compared > 0);
}

// Rank 0 of an eager framework, tensor parallel over 1 to 32 ranks, with and without pipelines.
TEST_CASE(
    "reserved peaks of nanotron.csv are met within 12 % in the mean (where shared/truth is "
    "there)") {
    const std::string file = truth_file("nanotron.csv");
    if (is_absent(file, "nanotron.csv")) return;
    double sum = 0, compared = 0;
    for (const CaseRow& row : read_cases(file)) {
        const Case found = case_of(row, "dgx-h100");
        if (!found.measured_peak) continue;
        sum += std::abs(transformer_memory(found.experiment).peak / *found.measured_peak - 1);
        ++compared;
    }
    REQUIRE(compared > 100);
    CHECK(sum / compared < 0.12);
}
