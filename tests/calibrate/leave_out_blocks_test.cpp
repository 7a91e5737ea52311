#include "calibrate/leave_out_blocks.h"

#include <cmath>

#include <fmt/format.h>

#include "calibrate/fit_tables.h"
#include "model/experiment.h"
#include "tests/model/files.h"

using namespace stepcast;

// Rows that the shipped law itself makes: what is left out is foretold by the constants of the rest.
TEST_CASE("a block of sizes is foretold from the rows outside of it") {
    const Cluster cluster = read_cluster("dgx-a100");
    std::string table = "op,m,n,k,dtype,gpu,time_us\n";
    int inside = 0;
    for (const long m : {256L, 1024L, 4096L, 8192L})
        for (const long n : {1024L, 4096L, 8192L})
            for (const long k : {1024L, 4096L, 8192L}) {
                const GemmRow row{"made", {m, n, k, 1, Dtype::bf16}, 1, {}};
                inside += m == 8192;
                table += fmt::format("gemm,{},{},{},bf16,A100-SXM4-80GB,{:.9g}\n", m, n, k,
                                     1e6 * gemm_case(row).predict(cluster).si());
            }
    const TestFolder folder;
    const auto blocks = leave_out_blocks({folder.write("gemms.csv", table)}, "dgx-a100", {});
    REQUIRE(blocks.size() == 1);  // none has n or k from 16,384 on
    CHECK(blocks.front().cluster == "dgx-a100");
    CHECK(blocks.front().block == "products of 8192 rows and more");
    CHECK(blocks.front().fitted_rows == 36 - inside);
    REQUIRE(blocks.front().errors.size() == 1);
    CHECK(blocks.front().errors.front().samples == inside);
    CHECK(blocks.front().errors.front().median < 0.1);
    CHECK(complaint([&] { leave_out_blocks({folder.write("none.csv", "op,m,n,k,dtype,gpu,time_us\n")}, "dgx-a100", {}); })
              .find("no row of a measured machine") != std::string::npos);
}
