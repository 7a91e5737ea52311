// Which machine a table's gpu column names.

#include <catch2/catch.hpp>

#include "import/tables/cluster.h"
#include "measured/read.h"
#include "model/base/plain_text.h"
#include "model/cluster.h"
#include "model/input/presets.h"
#include "tests/import/tables/transformer_rows.h"

using namespace stepcast;

// Some names are also those of parts with more memory; the number of multiprocessors is the die's.
TEST_CASE("a gpu column may have any name of a shipped device") {
    Shelf shelf;
    int names = 0;
    for (const PresetKind kind : {PresetKind::cluster, PresetKind::nameplate})
        for (const std::string& preset : preset_names(kind)) {
            const Gpu gpu = read_cluster(preset).gpu;
            if (gpu.sms == 0) continue;  // no GPU
            for (const std::string& name : words_of(gpu.name + "," + gpu.aliases)) {
                INFO(preset << ": " << name);
                CHECK(read_cluster(cluster_for(name, shelf)).gpu.sms == gpu.sms);
                ++names;
            }
        }
    CHECK(names > 100);
}

TEST_CASE("a device is found however users write around its name") {
    Shelf shelf;
    const std::pair<const char*, const char*> written[] = {
        {"NVIDIA RTX 6000 Ada Generation 48GB", "rtx-6000-ada-x8"},
        {"8x RTX PRO 6000 Blackwell Server", "rtx-pro-6000-x8"},
        {"AMD Instinct MI250X (one GCD)", "mi250x-x8"},
        {"A100x8", "dgx-a100"},
        {"A100-64GB-SXM", "a100-64gb-x4"},
        {"NVIDIA H100 64GB HBM2", "h100-64gb-x4"},
        {"8 x H100SXM5", "dgx-h100"},
        {"8xH200", "dgx-h200"},
        {"A10G (g5.48xlarge)", "a10g-x8"},
        {"GeForce RTX 2080 Ti", "rtx-2080-ti-x8"},
        {"RTX-5090-32GB", "rtx-5090-x8"},
        {"NVIDIA A40 48GB", "a40-x8"},
        {"GeForce RTX 3090", "rtx-3090-x8"},
        {"L20 48G", "l20-x8"}};
    for (const auto& [text, cluster] : written) {
        INFO(text);
        CHECK(cluster_for(text, shelf) == cluster);
    }
    CHECK_THROWS_AS(cluster_for("Ascend 910B", shelf), ConfigError);
    CHECK_THROWS_AS(cluster_for("TPU v5p", shelf), ConfigError);
}

// 44.4 GiB of a process are the 48 GB of the card's name. 480 GB are the CPU's.
TEST_CASE("a memory that only names the device is its own") {
    const auto memory = [](const char* gpu) {
        return gpt_case_with({{"gpu", gpu}, {"gpus", "8"}, {"dp", "2"}, {"gbs", "64"}})
            .experiment.cluster.gpu.memory;
    };
    CHECK(memory("L40S-48GB") == read_cluster("l40s-x8").gpu.memory);
    CHECK(memory("T4-16GB") == read_cluster("t4-x8").gpu.memory);
    CHECK(memory("GH200 480GB") == read_cluster("dgx-h200").gpu.memory);
    CHECK(memory("A100-40GB") == parse_bytes("40 GiB"));
}

// Leonardo's A100 has 124 of the chip's multiprocessors, the others' 108: 312 x 124 / 108 = 358
// TFLOP/s. Four stacks of HBM2e of 16 GB have 4 x 1,024 pins of 3.2 Gb/s: 1.64 TB/s. A node has
// four of them.
TEST_CASE("the A100 and the H100 of 64 GB are chips of their own, four in a node") {
    const auto cluster = [](const char* gpu) {
        return gpt_case_with({{"gpu", gpu}, {"gpus", "8"}, {"dp", "2"}, {"gbs", "64"}})
            .experiment.cluster;
    };
    const Cluster leonardo = cluster("A100 64GB");
    CHECK(leonardo.gpus_per_node == 4);
    CHECK(leonardo.nodes == 2);
    CHECK(leonardo.gpu.sms == 124);
    CHECK(leonardo.gpu.peaks[Dtype::bf16] / FlopsPerSecond(312e12) ==
          Approx(124.0 / 108).epsilon(1e-3));
    CHECK(leonardo.gpu.memory_bandwidth == BytesPerSecond(1.64e12));
    CHECK(cluster("H100-64GB-SXM").gpu.memory_bandwidth == BytesPerSecond(1.64e12));
    CHECK(cluster("H100-64GB-SXM").gpu.sms == cluster("H100-80GB-SXM").gpu.sms);
}

// Its file has a rate for each of its eight GPUs.
TEST_CASE("a part of a machine whose GPUs were measured one by one is forecast") {
    const auto rates = [](const char* gpus, const char* dp) {
        return gpt_case_with({{"gpu", "A40"}, {"gpus", gpus}, {"dp", dp}, {"gbs", "64"}})
            .experiment.cluster.gpu.rank_rates.size();
    };
    CHECK(rates("4", "1") == 0);
    CHECK(rates("8", "2") == 8);
}
