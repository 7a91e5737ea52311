#include "calibrate/leave_out_blocks.h"

#include <fmt/format.h>

#include <set>

#include "calibrate/fit.h"
#include "calibrate/fit_tables.h"
#include "calibrate/table_cases.h"
#include "measured/read.h"
#include "model/experiment.h"
#include "tests/model/files.h"

using namespace stepcast;

// The rows' times come from the shipped law, so the constants of the others predict the rows left
// out.
TEST_CASE("a block of sizes is foretold from the rows outside of it") {
    const Cluster cluster = read_cluster("dgx-a100");
    std::string table = "op,m,n,k,dtype,gpu,time_us\n";
    int inside = 0;
    for (const long m : {256L, 1024L, 4096L, 8192L})
        for (const long n : {1024L, 4096L, 8192L})
            for (const long k : {1024L, 4096L, 8192L}) {
                const GemmRow row{{m, n, k, 1, Dtype::bf16}, 1, {}};
                inside += m == 8192;
                table += fmt::format("gemm,{},{},{},bf16,A100-SXM4-80GB,{:.9g}\n", m, n, k,
                                     1e6 * gemm_case(row).predict(cluster).si());
            }
    const TestFolder folder;
    const auto blocks = leave_out_blocks({folder.write("gemms.csv", table)}, "dgx-a100", {});
    REQUIRE(blocks.size() == 1);  // no row has n or k from 16,384 on
    CHECK(blocks.front().cluster == "dgx-a100");
    CHECK(blocks.front().block == "GEMMs of 8192 rows and more");
    CHECK(blocks.front().fitted_rows == 36 - inside);
    REQUIRE(blocks.front().errors.size() == 1);
    CHECK(blocks.front().errors.front().samples == inside);
    CHECK(blocks.front().errors.front().median < 0.1);
    CHECK(complaint([&] {
              leave_out_blocks({folder.write("none.csv", "op,m,n,k,dtype,gpu,time_us\n")},
                               "dgx-a100", {});
          }).find("no row of a measured machine") != std::string::npos);
}

// The times of fp8 products include the casts of their input, and casts take three times as long as
// in the shipped cluster. With rows of the casts alone the fit finds both, and predicts the largest
// products with their casts.
TEST_CASE("casts are fitted beside the products that they precede") {
    const Cluster cluster = read_cluster("dgx-h100");
    Cluster slow = cluster;
    slow.kernel.cast.efficiency /= 3;
    slow.kernel.cast.launch *= 3;
    std::string casts = "op,rows,width,granularity,implementation,gpu,time_us\n",
                products = "op,m,n,k,dtype,gpu,time_us\n";
    for (const long m : {64L, 256L, 1024L, 4096L, 8192L, 16384L, 65536L})
        for (const long k : {1024L, 4096L, 8192L}) {
            casts += fmt::format("cast_dynamic,{},{},per tensor,x,H100-80GB-SXM,{:.9g}\n", m, k,
                                 1e6 * cast_time(m, k, CastScale::tensor, slow).si());
            if (m < 1024 || m > 16384) continue;
            for (const long n : {1024L, 4096L}) {
                GemmRow row{{m, n, k, 1, Dtype::fp8}, 1, {}};
                row.casts = true;
                products += fmt::format("cast_gemm,{},{},{},fp8,H100-80GB-SXM,{:.9g}\n", m, n, k,
                                        1e6 * narrow_time(row, slow).si());
            }
        }
    const TestFolder folder;
    const auto blocks = leave_out_blocks(
        {folder.write("casts.csv", casts), folder.write("gemms.csv", products)}, "dgx-h100", {});
    REQUIRE(blocks.size() == 1);
    CHECK(blocks[0].fitted_rows == 12);
    CHECK(blocks[0].errors.at(0).samples == 12);
    CHECK(blocks[0].errors[0].mape < 0.05);
}

namespace {

std::vector<std::string> blocks_told(const std::vector<BlockLeftOut>& blocks) {
    std::vector<std::string> all;
    for (const BlockLeftOut& b : blocks) {
        std::string text = fmt::format("{} {}:", b.fitted_rows, b.block);
        for (const HeldOutError& e : b.errors) text += fmt::format(" {} {}", e.samples, e.kind);
        all.push_back(text);
    }
    return all;
}

}  // namespace

// Of groups of two, four and eight ranks the eight are left out; rows over two nodes belong to no
// group. Of products, those with n or k of 16,384 are left out.
TEST_CASE("the largest group of ranks and the widest products are blocks of their own") {
    const Cluster cluster = read_cluster("dgx-a100");
    std::string links = "op,ranks,nodes,bytes,gpu,time_us\n";
    for (const int ranks : {2, 4, 8})
        for (double bytes = 1024; bytes < 1e9; bytes *= 4)
            for (const char* op : {"all_reduce", "all_gather"})
                links +=
                    fmt::format("{},{},1,{},A100-SXM4-80GB,{:.9g}\n", op, ranks, bytes,
                                1e6 * collective_case({op, ranks, 1, Bytes(bytes), {}}, cluster)
                                          .predict(cluster)
                                          .si());
    links += "all_reduce,16,2,1024,A100-SXM4-80GB,30\n";
    std::string products = "op,m,n,k,dtype,gpu,time_us\n";
    for (const long m : {256L, 1024L})
        for (const auto& [n, k] : {std::pair{1024L, 4096L},
                                   {4096L, 1024L},
                                   {4096L, 4096L},
                                   {8192L, 8192L},
                                   {16384L, 1024L},
                                   {1024L, 16384L},
                                   {16383L, 1024L}})
            products += fmt::format(
                "gemm,{},{},{},bf16,A100-SXM4-80GB,{:.9g}\n", m, n, k,
                1e6 * gemm_case({{m, n, k, 1, Dtype::bf16}, 1, {}}).predict(cluster).si());
    const TestFolder folder;
    const auto blocks = leave_out_blocks(
        {folder.write("links.csv", links), folder.write("gemms.csv", products)}, "dgx-a100", {});
    CHECK(blocks_told(blocks) ==
          std::vector<std::string>{
              "10 GEMMs with n or k from 16384 on: 4 gemm",
              "40 collectives of the largest group: 10 all_reduce 10 all_gather"});
    for (const BlockLeftOut& b : blocks)
        for (const HeldOutError& e : b.errors) {
            CHECK(e.method == b.block);
            CHECK(e.median < 0.1);
        }
}

// Kernel "a" has rows on both sides; "b" only has long sequences, which say nothing about its law.
// Thirds: 31 x 16 + 7 x 64 = 944, plus the number of experts, modulo 3: 64 and 256 are in the first
// third, 8 and the other kernel's 512 in the second, 255 in the third.
TEST_CASE("long sequences and many experts are left out of the kernels that the rest shows") {
    std::string attention =
        "op,batch,heads,kv_heads,seq_q,seq_k,head_dim,causal,kernel,dtype,gpu,time_us\n";
    for (const long seq : {512L, 2048L, 8191L, 8192L, 16384L})
        attention += fmt::format("attention,1,16,16,{0},{0},128,1,a,bf16,A100-SXM4-80GB,{1}\n", seq,
                                 5 + 4e-6 * static_cast<double>(seq * seq));
    attention += "attention,1,16,16,16384,16384,128,1,b,bf16,A100-SXM4-80GB,900\n";
    std::string layers =
        "num_tokens,hidden,inter,topk,experts,tp_in_expert,ep,dtype,implementation,gpu,time_us\n";
    for (const int experts : {8, 64, 255, 256})
        layers += fmt::format("64,1024,1024,1,{},1,1,bf16,fused,A100-SXM4-80GB,{}\n", experts,
                              100 + experts);
    layers += "64,1024,1024,1,512,1,1,bf16,other,A100-SXM4-80GB,700\n";
    const TestFolder folder;
    const auto blocks = leave_out_blocks(
        {folder.write("a.csv", attention), folder.write("m.csv", layers)}, "dgx-a100", {});
    CHECK(blocks_told(blocks) ==
          std::vector<std::string>{"3 attention from 8192 tokens on: 2 attention",
                                   "3 expert layers with 256 experts and more: 1 moe_layer",
                                   "3 expert layers of a third of the models (1): 2 moe_layer",
                                   "3 expert layers of a third of the models (2): 1 moe_layer",
                                   "4 expert layers of a third of the models (3): 1 moe_layer"});
}

// 27 rows with times of the law, and one that contradicts them: each is judged once, by constants
// that have not seen it. A kernel with a single row cannot be predicted once this row is left out.
TEST_CASE("each tenth of the shapes is foretold by the other nine") {
    const Cluster cluster = read_cluster("dgx-a100");
    std::string products = "op,m,n,k,dtype,gpu,time_us\n";
    int rows = 0;
    const auto add = [&](long m, long n, long k, double factor) {
        const GemmRow row{{m, n, k, 1, Dtype::bf16}, 1, {}};
        products += fmt::format("gemm,{},{},{},bf16,A100-SXM4-80GB,{:.9g}\n", m, n, k,
                                factor * 1e6 * gemm_case(row).predict(cluster).si());
        ++rows;
    };
    for (const long m : {256L, 1024L, 4096L})
        for (const long n : {1024L, 4096L, 8192L})
            for (const long k : {1024L, 4096L, 8192L}) add(m, n, k, 1);
    add(2048, 2048, 2048, 4);
    const std::string lone =
        "op,kernel,batch,heads,kv_heads,seq_q,seq_k,head_dim,causal,window,dtype,gpu,time_us\n"
        "attention,lone,1,16,16,2048,2048,128,1,0,bf16,A100-SXM4-80GB,200\n";
    const TestFolder folder;
    const auto left_out = leave_out_tenths(
        {folder.write("gemms.csv", products), folder.write("lone.csv", lone)}, "dgx-a100", {});
    REQUIRE(left_out.size() == 1);
    REQUIRE(left_out[0].errors.size() == 1);
    const HeldOutError& e = left_out[0].errors[0];
    CHECK(e.kind == "gemm");
    CHECK(e.samples == rows);
    CHECK(e.median < 0.05);
    CHECK(e.worst == Approx(-0.75).margin(0.08));
    CHECK(complaint([&] {
              leave_out_tenths({folder.write("none.csv", "op,m,n,k,dtype,gpu,time_us\n")},
                               "dgx-a100", {});
          }).find("--cross-validate fold: no row of a measured machine") != std::string::npos);
}

// The first tenth is the one that every fit holds out.
TEST_CASE("tenths part the shapes, and the first is the one held out") {
    std::set<int> seen;
    for (long m = 128; m <= 128 * 64; m += 128) {
        const FitCase c = gemm_case({{m, 1024, 1024, 1, Dtype::bf16}, 1, Seconds(1e-3)});
        seen.insert(tenth_of(c));
        CHECK(is_held_out(c) == (tenth_of(c) == 0));
    }
    CHECK(seen == std::set<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}
