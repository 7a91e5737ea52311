#include <catch2/catch.hpp>

#include "calibrate/building_blocks.h"
#include "calibrate/fit.h"
#include "calibrate/fit_tables.h"
#include "calibrate/kernel_comparisons.h"
#include "calibrate/table_cases.h"
#include "measured/read.h"
#include "model/experiment.h"
#include "model/machine/cluster_file.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

const std::string gemm_header = "gpu,op,m,n,k,groups,dtype,time_us\n";

}  // namespace

// Three GEMMs of two devices, one in a dtype that the A100 does not have, and one of a device that
// no shipped cluster has.
TEST_CASE("each row of a table of kernels is predicted by the cluster of its own device") {
    const TestFolder folder;
    const std::string path =
        folder.write("g.csv", gemm_header +
                                  "NVIDIA A100-SXM4-80GB,gemm,4096,4096,4096,1,bf16,600\n"
                                  "NVIDIA A100-SXM4-80GB,gemm,4096,4096,4096,1,fp8,600\n"
                                  "NVIDIA B200,gemm,4096,4096,4096,1,bf16,90\n"
                                  "B200,gemm,4096,4096,8192,1,bf16,170\n"
                                  "Abacus 9,gemm,4096,4096,4096,1,bf16,90\n");
    REQUIRE(holds_kernels(path));
    const KernelComparisons found = read_kernel_comparisons(path, "");
    REQUIRE(found.rows.size() == 3);  // each once, though the device has two spellings
    CHECK(found.rows[0].cluster == "dgx-a100");
    CHECK(found.rows[0].device == "NVIDIA A100-SXM4-80GB");
    CHECK(found.rows[0].dtype == "bf16");
    CHECK(found.rows[0].work.si() == Approx(2.0 * 4096 * 4096 * 4096));
    CHECK(found.rows[0].bytes.si() == Approx(2.0 * 3 * 4096 * 4096));
    CHECK(found.rows[0].measured.si() == Approx(600e-6));
    CHECK(found.rows[0].evidence == Evidence::unseen);
    CHECK(found.rows[0].p10 < found.rows[0].predicted);
    CHECK(found.rows[1].cluster == "b200-x8");
    const FitCase law = gemm_case({{4096, 4096, 4096, 1, Dtype::bf16}, 1, Seconds(600e-6)});
    CHECK(found.rows[0].predicted == law.predict(read_cluster("dgx-a100")));
    REQUIRE(found.refused.size() == 2);
    CHECK(found.refused[0].rows == 1);
    CHECK(found.refused[1].device == "Abacus 9");
    CHECK(found.refused[1].reason.starts_with("no shipped cluster has this GPU"));
    for (const KernelComparison& k : read_kernel_comparisons(path, "dgx-h100").rows)
        CHECK(k.cluster == "dgx-h100");
}

// An all-reduce over eight ranks sends 2 x 7/8 of its 64 MiB over the slowest link. Sixteen ranks
// do not fit a node of eight.
TEST_CASE(
    "collectives are predicted inside a node and between nodes, with nccl-tests' bus bandwidth") {
    const TestFolder folder;
    const auto path = folder.write("c.csv",
                                   "gpu,op,ranks,nodes,bytes,time_us\n"
                                   "NVIDIA H100 80GB HBM3,all_reduce,8,1,67108864,300\n"
                                   "NVIDIA H100 80GB HBM3,all_gather,16,2,67108864,500\n"
                                   "NVIDIA H100 80GB HBM3,all_reduce,16,1,67108864,300\n"
                                   "NVIDIA H100 80GB HBM3,all_reduce,8,1,,300\n");
    const KernelComparisons found = read_kernel_comparisons(path, "");
    REQUIRE(found.rows.size() == 2);
    CHECK(found.rows[0].bus_factor == Approx(1.75));
    CHECK(found.rows[1].bus_factor == Approx(15.0 / 16));
    CHECK(found.rows[1].predicted > Seconds(0));
    CHECK(found.refused.size() == 2);
}

// Four of a node's eight ranks: the machine is unchanged. Sixteen over two nodes: two nodes of
// eight. Four over two nodes: two nodes of two.
TEST_CASE("a collective runs on as many nodes of its device as it states") {
    const TestFolder folder;
    for (const char* name : {"dgx-a100", "dgx-a100-pcie"}) {
        const Cluster one = read_cluster(name);
        const auto path =
            folder.write("c.csv",
                         "op,ranks,nodes,bytes,time_us\nall_reduce,4,1,67108864,300\nall_reduce,16,"
                         "2,67108864,300\nall_gather,4,2,67108864,300\n");
        const KernelComparisons found = read_own_kernels(path, one);
        REQUIRE(found.rows.size() == 3);
        Cluster two = one, small = one;
        two.nodes = small.nodes = 2;
        small.gpus_per_node = 2;
        CHECK(found.rows[0].predicted ==
              collective_case({"all_reduce", 4, 1, Bytes(67108864), {}}, one).predict(one));
        CHECK(found.rows[1].predicted ==
              collective_case({"all_reduce", 16, 2, Bytes(67108864), {}}, two).predict(two));
        CHECK(found.rows[2].predicted ==
              collective_case({"all_gather", 4, 2, Bytes(67108864), {}}, small).predict(small));
        CHECK(found.rows[1].ranks == 16);
    }
}

// One GPU has two names in one table: the rows of each name are read once, under that name.
TEST_CASE("rows under another name of a GPU are not counted twice") {
    const TestFolder folder;
    Cluster own = read_cluster("dgx-a100");
    own.gpu.name = "Abacus 9";
    own.gpu.aliases = "Abacus 9 PCIe";
    const auto path = folder.write(
        "g.csv",
        gemm_header +
            "Abacus 9,gemm,512,512,512,1,bf16,9\nAbacus 9 PCIe,gemm,512,512,1024,1,bf16,15\n");
    const KernelComparisons found = read_own_kernels(path, own);
    REQUIRE(found.rows.size() == 2);
    CHECK(found.rows[0].device == "Abacus 9");
    CHECK(found.rows[0].measured.si() == Approx(9e-6));
    CHECK(found.rows[1].device == "Abacus 9 PCIe");
    CHECK(found.rows[1].measured.si() == Approx(15e-6));
}

// A fitted row is recognised by its hash, which [fitted] of the cluster keeps.
TEST_CASE("a kernel that the cluster was fitted on is no evidence") {
    const TestFolder folder;
    const auto path =
        folder.write("g.csv", gemm_header + "A100-SXM4-80GB,gemm,512,512,512,1,bf16,9\n");
    BuildingBlocks blocks;
    Cluster cluster = read_cluster("dgx-a100");
    read_building_blocks(path, cluster.gpu, blocks);
    cluster.fitted->rows = {blocks.gemms.at(0).row};
    const auto file = folder.write("c.toml", write_cluster(cluster));
    CHECK(read_kernel_comparisons(path, file).rows.at(0).evidence == Evidence::fitted);
    CHECK(read_kernel_comparisons(path, "").rows.at(0).evidence == Evidence::unseen);
}

TEST_CASE("what is no table of kernels is left to others, a broken row is named") {
    const TestFolder folder;
    CHECK_FALSE(holds_kernels(folder.path()));
    CHECK_FALSE(holds_kernels(folder.write("c.csv", "model,gpus,step_s\n")));
    const auto path = folder.write("g.csv", gemm_header + "A100,gemm,0,512,512,1,bf16,9\n");
    CHECK(complaint([&] { read_kernel_comparisons(path, ""); }, folder.path())
              .starts_with("g.csv:2: m: "));
}

// As `import` writes them from a profile; here each row is a kernel like any other.
TEST_CASE("GEMMs of a trace are held against the laws row by row") {
    const TestFolder folder;
    const std::string path = folder.write(
        "run.gemms.csv",
        "gpu,m,n,k,groups,dtype,layout,timer,time_us,calls,total_us,call,rank\n"
        "NVIDIA H100 80GB HBM3,8944,2816,1024,1,bf16,NT,kernel,83.679,48,4015.5,aten::mm,0\n");
    const KernelComparisons found = read_kernel_comparisons(path, "");
    REQUIRE(found.rows.size() == 1);
    CHECK(found.rows[0].cluster == "dgx-h100");
    CHECK(found.rows[0].measured.si() == Approx(83.679e-6));
}
