#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/experiment.h"
#include "model/machine/cluster_file.h"
#include "model/records/provenance.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {
// Every key gets a different value that is not its default.
Cluster full() {
    Experiment e;
    int i = 1;
    for (const auto& doc : key_docs()) {
        if (!doc.key.starts_with("cluster.") || doc.kind == "preset") continue;
        ++i;
        const auto n = std::to_string(i);
        const std::string value =
            doc.kind == "text"               ? "name \"" + n + "\" \\ \u00b5 a"
            : doc.kind == "boolean"          ? "true"
            : doc.kind == "integer"          ? n
            : doc.kind == "number"           ? "0." + n + "1234567890123"
            : doc.kind == "time"             ? n + ".12345678901234 us"
            : doc.kind == "bytes"            ? n + " GiB"
            : doc.kind == "bytes per second" ? n + ".2345678901234567 GB/s"
            : doc.kind == "flop per second"  ? n + " TFLOP/s"
            : doc.kind == "name"             ? "pcie"
            : doc.kind == "numbers"          ? "[0." + n + ", 1.5]"
            : doc.key.ends_with("attention_kernels")
                ? "[[\"flash " + n +
                      "\", \"10 us\", 0.9, 40, 60, 0.5, 1, 1, \"0.1 ns\", 1, 0.6, 60, 128, false, "
                      "512, 1.5]]"
            : doc.kind == "kernels"
                ? "[[\"grouped " + n + "\", \"20 us\", 0.8, 300, 25, 0.85, 1.5, true]]"
            : doc.kind == "curve"
                ? "[[\"" + n + " B\", \"1 us\"], [\"1 MiB\", \"" + n + " ms\"]]"
                : "[[" + n + ", 2, 3, \"bf16\", \"1.5 us\"], [9, 9, 9, \"fp8\", \"2 ns\"]]";
        set_key(e, {doc.key, value});
    }
    // a power limit is above the idle power
    std::swap(e.cluster.power.limit, e.cluster.power.idle);
    e.cluster.gpu.rank_rates.assign(static_cast<std::size_t>(rank_count(e.cluster)), 1.0 / 3);
    e.cluster.fitted = Fitted{
        .date = "2025-01-02",
        .sources = {"a.csv", "b \"c\".csv"},
        .samples = 12,
        .condition = 1.0 / 3,
        .parameters = {{"kernel.launch", get_key(e, "cluster.kernel.launch"), "3 us", 0.05, true},
                       {"kernel.gemm_k0", get_key(e, "cluster.kernel.gemm_k0"), "149", 0.5, false}},
        .errors = {{"step", "leave-one-out", 12, 0, 0.03, -0.01, 0.08},
                   {"gemm", "held-out fifth", 5, 0.05, 0.1, 0.2, 0.3}},
        .ranges = {{"gemm.m", 64, 8192}, {"all_reduce.bytes", 512, 536870912}},
        .rows = {}};
    return e.cluster;
}
}  // namespace

TEST_CASE("a cluster with every key set reads back as written") {
    const TestFolder folder;
    const auto cluster = full();
    CHECK(read_cluster(folder.write("c.toml", write_cluster(cluster))) == cluster);
    auto nameplate = cluster;
    nameplate.fitted.reset();
    CHECK(read_cluster(folder.write("c.toml", write_cluster(nameplate))) == nameplate);
}

TEST_CASE("the shipped form of a cluster file is stable") {
    const TestHome home;
    const TestFolder folder;
    const auto once = write_cluster(read_cluster("four"));
    CHECK(write_cluster(read_cluster(folder.write("c.toml", once))) == once);
}

// four.toml has a launch of 3 us on the nameplate and 4 us fitted.
TEST_CASE("the nameplate keeps the priors and the fit is applied on reading") {
    const TestHome home;
    const auto cluster = read_cluster("four");
    CHECK(cluster.kernel.launch == Seconds(4e-6));
    CHECK(cluster.kernel.gemm_efficiency == 0.8);
    REQUIRE(cluster.fitted);
    CHECK(cluster.fitted->parameters.at(1) ==
          FittedParameter{"kernel.gemm_efficiency", "0.8", "0.8", 0.5, false});
    const auto text = write_cluster(cluster);
    CHECK_THAT(text, Catch::Contains("\nlaunch = \"3 us\"\n") &&
                         Catch::Contains("value = \"4 us\", prior = \"3 us\""));
}

TEST_CASE("a cluster without a name has that of its file") {
    const TestFolder folder;
    CHECK(read_cluster(folder.write("mine.toml",
                                    "gpu.memory = \"1 GiB\"\ngpu.memory_bandwidth = \"1 GB/s\"\n"))
              .name == "mine");
}

// Old attention rows of ten fields had one field for `traffic` and `cache`, and no `token`, `odd`,
// `slides`; those of fourteen had no `token_block` and `fp8_traffic`; all had a width of
// exponentials in the place of `fp8_launch`. Old rows of expert layers had the time of a token as
// third field, and no `tabled` and `reloads`.
TEST_CASE("kernels of older files are read with what came later at its neutral value") {
    Experiment e;
    const auto set = [&](const char* list, const char* rows) {
        set_key(e, {std::string("cluster.kernel.") + list, rows});
    };
    set("attention_kernels", R"([["a", "1 us", 0.9, 40, 60, 0.5, 2, 0.6, 70, 128]])");
    const auto first = [&] { return e.cluster.kernel.attention_kernels.at(0); };
    CHECK((first().name == "a" && first().traffic == 2 && first().cache == 2 &&
           first().token == Seconds(0)));
    CHECK((first().fp8_launch == Seconds(0) && first().tile == 128 && first().slides &&
           first().token_block == 0 && first().fp8_traffic == 1));
    set("attention_kernels",
        R"([["b", "1 us", 0.9, 40, 60, 0.5, 2, 3, "4 us", 0.8, 0.6, 70, 64, false]])");
    CHECK((first().cache == 3 && first().token == Seconds(4e-6) && first().tile == 64 &&
           !first().slides));
    CHECK((first().token_block == 0 && first().fp8_traffic == 1));
    set("expert_kernels", R"([["c", "1 us", "2 us", 0.8, 300, 25, 0.85, 1.5]])");
    const ExpertKernel c = e.cluster.kernel.expert_kernels.at(0);
    CHECK((c.launch == Seconds(1e-6) && c.efficiency == 0.8 && c.passes == 1.5 && !c.tabled &&
           !c.reloads));
}

// Fields have names; fields that are left out have their defaults. A list replaces the earlier one,
// in either form.
TEST_CASE("kernels are rows of named fields") {
    const TestFolder folder;
    const char* base = "gpu.memory = \"1 GiB\"\ngpu.memory_bandwidth = \"1 GB/s\"\n";
    const std::string rows =
        R"([{kernel = "a", launch = "1 us", tile = 128}, {kernel = "b", fp8 = 0.9}])";
    const auto path =
        folder.write("base.toml", base + ("kernel.attention_kernels = " + rows + "\n"));
    const std::vector<AttentionKernel> expected{{.name = "a", .launch = Seconds(1e-6), .tile = 128},
                                                {.name = "b", .fp8_efficiency = 0.9}};
    CHECK(read_cluster(path).kernel.attention_kernels == expected);
    Experiment e;
    set_key(e, {"cluster.kernel.attention_kernels", rows});
    CHECK(e.cluster.kernel.attention_kernels == expected);
    CHECK_THROWS_WITH(set_key(e, {"cluster.kernel.attention_kernels", "[]\nrun.seed = 7"}),
                      Catch::Contains("found several values; expected one"));
    const auto own = folder.write(
        "own.toml", "preset = \"./base.toml\"\n[[kernel.attention_kernels]]\nkernel = \"c\"\n");
    CHECK(read_cluster(own).kernel.attention_kernels ==
          std::vector<AttentionKernel>{{.name = "c"}});
    const auto told = [&](const char* row) {
        return folder.write(
            "bad.toml",
            base + std::string("kernel.attention_kernels = [{kernel = \"a\", ") + row + "}]\n");
    };
    CHECK_THROWS_WITH(
        read_cluster(folder.write(
            "nameless.toml",
            base + std::string("kernel.attention_kernels = [{kernel = \"a\"}, {tile = 128}]\n"))),
        Catch::Contains("nameless.toml:3:") &&
            Catch::Contains("kernel.attention_kernels: row 2 names no kernel; expected {kernel = "
                            "\"NAME\", ..}"));
    CHECK_THROWS_WITH(
        set_key(e, {"cluster.kernel.expert_kernels", R"([["a", "1 us"]])"}),
        Catch::Contains("point 1: found 2 values; expected fields by name, for example [{kernel = "
                        "\"bf16 CUTLASS\", launch = \"20 us\", passes = 1.5}]"));
    CHECK_THROWS_WITH(
        read_cluster(told("tiel = 128")),
        Catch::Contains("bad.toml:3:44: kernel.attention_kernels.0.tiel: unknown key"));
    CHECK_THROWS_WITH(read_cluster(told("tile = -1")),
                      Catch::Contains("bad.toml:3:51: kernel.attention_kernels.0.tile: -1 is out "
                                      "of range; expected 0 to 4096"));
    CHECK_THROWS_WITH(read_cluster(folder.write("scalar.toml",
                                                base + std::string("[kernel.launch.0]\nus = 1\n"))),
                      Catch::Contains("scalar.toml:3:1"));
}

// An H800 is like an H100 with 8 of its 18 NVLinks.
TEST_CASE("a cluster that starts from another differs in what it states") {
    const TestFolder folder;
    const Cluster h100 = read_cluster("dgx-h100");
    Cluster expected = h100;
    expected.name = "cut";
    expected.intra.bandwidth = BytesPerSecond(200e9);
    CHECK(read_cluster(folder.write(
              "cut.toml", "preset = \"dgx-h100\"\nlink.intra.bandwidth = \"200 GB/s\"\n")) ==
          expected);
    // A third file starts from the second by a relative path. As another device it copies the
    // constants, and nothing counts as fitted.
    const Cluster h800 = read_cluster(folder.write(
        "h800.toml", "preset = \"./cut.toml\"\nname = \"ours\"\ngpu.name = \"H800\"\n"));
    CHECK(h800.name == "ours");
    CHECK(h800.intra == expected.intra);
    CHECK(h800.kernel == h100.kernel);
    CHECK_FALSE(h800.fitted);
    CHECK(fitted_rows(h800) == fitted_rows(h100));
    CHECK_THROWS_WITH(read_cluster(folder.write("round.toml", "preset = \"./round.toml\"\n")),
                      Catch::Contains("round.toml:1:10: preset: starts from itself"));
    CHECK_THROWS_WITH(read_cluster(folder.write("none.toml", "preset = \"dgx-h10\"\n")),
                      Catch::Contains("none.toml:1:10: preset: \"dgx-h10\""));
}
