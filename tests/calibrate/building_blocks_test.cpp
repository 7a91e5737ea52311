#include "calibrate/building_blocks.h"

#include "tests/model/files.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

Gpu a100() {
    Gpu gpu;
    gpu.name = "A100-SXM4-80GB";
    gpu.aliases = "A100, A100-80GB-SXM";
    gpu.peaks[Dtype::bf16] = FlopsPerSecond(312e12);
    return gpu;
}

class Table {
public:
    explicit Table(const std::string& text) {
        static int made = 0;
        path_ =
            (std::filesystem::temp_directory_path() /
             ("stepcast-table-" + std::to_string(getpid()) + "-" + std::to_string(++made) + ".csv"))
                .string();
        std::ofstream(path_) << text;
    }
    ~Table() { std::filesystem::remove(path_); }
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] BuildingBlocks read() const {
        BuildingBlocks blocks;
        read_building_blocks(path_, a100(), blocks);
        return blocks;
    }

private:
    std::string path_;
};

}  // namespace

TEST_CASE(
    "a device is named by its name or an alias, whatever the case, blanks, dashes and vendor") {
    CHECK(names_device("NVIDIA A100-SXM4-80GB", a100()));
    Gpu v100;
    v100.name = "V100-SXM2";
    CHECK(names_device("Tesla V100-SXM2", v100));
    CHECK(names_device("a100 sxm4 80gb", a100()));
    CHECK(names_device("A100", a100()));
    CHECK(names_device("A100 80GB SXM", a100()));
    CHECK_FALSE(names_device("A100-PCIe", a100()));
    CHECK_FALSE(names_device("", a100()));
}

TEST_CASE("GEMM rows are read with their times, after comments, without a device column") {
    const Table table(
        "# mine\nm,n,k,groups,dtype,time_us\n64,128,256,1,bf16,3.5\n64,128,256,4,bf16,9\n");
    CHECK(kind_of_table(table.path()) == TableKind::gemms);
    const BuildingBlocks blocks = table.read();
    REQUIRE(blocks.gemms.size() == 2);
    CHECK(blocks.gemms[0].gemm == Gemm{64, 128, 256, 1, Dtype::bf16});
    CHECK(blocks.gemms[0].time.si() == Approx(3.5e-6));
    CHECK(blocks.gemms[1].groups == 4);
}

// 2 x 1000 x 1000 x 1000 FLOP at 200 TFLOP/s: 10 us. "-> fp32" is a result in fp32.
TEST_CASE("a rate becomes a time, an fp32 result an accumulation, and other devices are counted") {
    const Table table(
        "op,m,n,k,groups,gpu,dtype,value,unit\n"
        "gemm,1000,1000,1000,1,A100,bf16 -> fp32,200,TFLOP/s\n"
        "gemm,1000,1000,1000,1,NVIDIA H100,bf16,200,TFLOP/s\n"
        "gemm_best_shape,1,1,1,1,A100,bf16,200,TFLOP/s\n"
        "gemm,1000,1000,1000,1,A100,fp8,200,TFLOP/s\n");
    const BuildingBlocks blocks = table.read();
    REQUIRE(blocks.gemms.size() == 1);
    CHECK(blocks.gemms[0].time.si() == Approx(10e-6));
    CHECK(blocks.gemms[0].gemm.accumulate);
    CHECK(blocks.other_device_rows == 1);
    CHECK(blocks.devices == std::vector<std::string>{"NVIDIA H100"});
    CHECK(blocks.other_op_rows == 2);
}

TEST_CASE(
    "collective rows are read, operations without a law and rows without size or time are "
    "counted") {
    const Table table(
        "op,ranks,nodes,bytes,time_us\nall_reduce,8,1,512,21.5\nmoe_dispatch,8,1,,\nall_gather,8,1,"
        ",\n");
    const BuildingBlocks blocks = table.read();
    REQUIRE(blocks.collectives.size() == 1);
    CHECK(blocks.collectives[0] == CollectiveRow{"all_reduce", 8, 1, Bytes(512),
                                                 blocks.collectives[0].time,
                                                 blocks.collectives[0].row});
    CHECK(blocks.collectives[0].time.si() == Approx(21.5e-6));
    CHECK(blocks.other_op_rows == 1);
    CHECK(blocks.unstated_rows == 1);
}

// model/presets/sources.toml: 16 KiB since NCCL 2.29, 512 KiB before. 2.3 is before 2.29, though
// its digits are not.
TEST_CASE("a release of a library says what it takes for a small message") {
    const Table table(
        "op,ranks,nodes,bytes,time_us,implementation\nall_to_all,8,1,512,21.5,NCCL 2.28.9 "
        "(nccl-tests)\n"
        "all_to_all,8,1,512,21.5,NCCL 2.29.2 (nccl-tests)\nall_to_all,8,1,512,21.5,NCCL 2.3 "
        "(nccl-tests)\n"
        "all_to_all,8,1,512,21.5,oneCCL 2021.17\nall_to_all,8,1,512,21.5,NCCLX 2.29\n");
    const BuildingBlocks blocks = table.read();
    REQUIRE(blocks.collectives.size() == 5);
    CHECK(blocks.collectives[0].small == Bytes(512 * 1024));
    CHECK(blocks.collectives[1].small == Bytes(16 * 1024));
    CHECK(blocks.collectives[2].small == Bytes(512 * 1024));
    CHECK_FALSE(blocks.collectives[3].small.has_value());
    CHECK_FALSE(blocks.collectives[4].small.has_value());
}

TEST_CASE("MoE layer rows are read with the skew of their distribution") {
    const Table table(
        "num_tokens,hidden,inter,topk,experts,tp_in_expert,ep,distribution,gpu,dtype,value,unit\n"
        "256,4096,1536,8,128,1,2,power_law_1.2,A100,bf16,3.07,ms\n256,4096,1536,8,128,1,2,balanced,"
        "A100,bf16,2,ms\n");
    const BuildingBlocks blocks = table.read();
    REQUIRE(blocks.moe_layers.size() == 2);
    CHECK(blocks.moe_layers[0].skew == 1.2);
    CHECK(blocks.moe_layers[0].time.si() == Approx(3.07e-3));
    CHECK(blocks.moe_layers[1].skew == 0);
}

// Rows of 8 elements of 16 bits begin at multiples of 16 bytes. C has n of them a row; A has k, or
// m as TN; B has k as NT, else n.
TEST_CASE("operands whose rows begin between multiples of eight elements are even or odd") {
    using Alignment = Gemm::Alignment;
    const auto alignment = [](int m, int n, int k, const char* layout) {
        const Table table("m,n,k,dtype,layout,timer,time_us\n" + std::to_string(m) + "," +
                          std::to_string(n) + "," + std::to_string(k) + ",bf16," + layout +
                          ",,3\n");
        const BuildingBlocks blocks = table.read();
        CHECK(blocks.gemms.at(0).between_events);
        return blocks.gemms[0].gemm.alignment;
    };
    for (const char* layout : {"NT", "NN", "TN"}) {
        CAPTURE(layout);
        CHECK(alignment(16, 24, 32, layout) == Alignment::full);
        CHECK(alignment(16, 25, 32, layout) == Alignment::odd);
        CHECK(alignment(16, 26, 32, layout) == Alignment::even);
        CHECK(alignment(16, 28, 32, layout) == Alignment::even);
    }
    CHECK(alignment(16, 24, 31, "NT") == Alignment::odd);
    CHECK(alignment(16, 24, 31, "NN") == Alignment::odd);
    CHECK(alignment(16, 24, 31, "TN") == Alignment::full);
    CHECK(alignment(15, 24, 32, "TN") == Alignment::odd);
    CHECK(alignment(15, 24, 32, "NT") == Alignment::full);
    CHECK(alignment(15, 24, 32, "NN") == Alignment::full);
    CHECK_THROWS_WITH(alignment(8, 8, 8, "TT"),
                      Contains("layout: found \"TT\"; expected NT, NN or TN"));
    const Table kernels(
        "m,n,k,dtype,layout,timer,time_us\n8,8,8,bf16,,kernel,3\n8,16,8,bf16,NN,kernel,3\n");
    CHECK_FALSE(kernels.read().gemms.at(0).between_events);
    CHECK(kernels.read().gemms.at(0).gemm.layout == Gemm{}.layout);
    CHECK((kernels.read().gemms[0].row != 0 &&
           kernels.read().gemms[0].row != kernels.read().gemms[1].row));
}

TEST_CASE("bad tables are refused with their line") {
    const Table unknown("a,b\n1,2\n");
    CHECK_THROWS_WITH(kind_of_table(unknown.path()),
                      Contains(".csv:1: found header \"a,..\" of 2 columns; expected GEMMs"));
    CHECK_THROWS_WITH(Table("m,n,k,dtype,time_us\n1,1,1,bf16,0\n").read(),
                      Contains(".csv:2: time_us: \"0\" is not above 0"));
    CHECK_THROWS_WITH(Table("m,n,k,dtype,time_us\n1,1,1,bf16,2\n1,x,1,bf16,2\n").read(),
                      Contains(".csv:3: n: "));
    CHECK_THROWS_WITH(Table("m,n,k,dtype,time_us\n1,1,1,half,2\n").read(),
                      Contains(".csv:2: dtype: "));
    CHECK_THROWS_WITH(Table("m,n,k,dtype,value,unit\n1,1,1,bf16,2,GB/s\n").read(),
                      Contains(".csv:2: unit: found \"GB/s\""));
    CHECK_THROWS_WITH(Table("op,ranks,nodes,bytes,time_us\nall_reduce,1,1,512,2\n").read(),
                      Contains(".csv:2: ranks: 1 ranks on 1 nodes"));
    CHECK_THROWS_WITH(Table("op,ranks,nodes,bytes,time_us\nall_reduce,8,1,512\n").read(),
                      Contains(".csv:2: found 4 fields"));
    CHECK_THROWS_WITH(
        Table("gpus,step_s\n").read(),
        Contains(".csv:1: steps of a job; expected a table of kernels or collectives"));
}
