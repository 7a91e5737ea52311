#include "model/machine/gpu_name.h"

#include <cmath>

#include "measured/read.h"
#include "model/base/plain_text.h"
#include "model/experiment.h"
#include "model/input/presets.h"
#include "tests/model/files.h"

using namespace stepcast;

TEST_CASE("the memory in a GPU's name is read however it is written") {
    for (const char* name : {"A100-40GB", "A100-SXM4-40GB", "a100 40 GB", "A100_40G", "A100-40GiB",
                             "A100 (40GB)", "40GB A100"})
        CHECK(gigabytes_in(name) == 40);
    for (const char* name :
         {"A100", "A10G", "H100 SXM5", "8x400G/s", "400 Gb/s", "RTX 4090", "GB200", "A100-40"})
        CHECK_FALSE(gigabytes_in(name));
    CHECK(gigabytes_in("NVIDIA H100 80GB HBM3") == 80);
}

// 80 GiB are 85.9 GB and 179 GiB are 192.2 GB. 94 GB: 93.6 GiB. 5 % apart is another size.
TEST_CASE("names round, and mean either unit") {
    CHECK(is_called(Bytes(80.0 * (1 << 30)), 80));
    CHECK(is_called(Bytes(179.0 * (1 << 30)), 192));
    CHECK(is_called(Bytes(179.0 * (1 << 30)), 180));
    CHECK(is_called(Bytes(93.6 * (1 << 30)), 94));
    CHECK_FALSE(is_called(Bytes(80.0 * (1 << 30)), 40));
    CHECK_FALSE(is_called(Bytes(80.0 * (1 << 30)), 94));
}

// Every name of every shipped machine that states a memory has that memory.
TEST_CASE("no name of a shipped machine states another memory than its file") {
    int named = 0;
    for (const PresetKind kind : {PresetKind::cluster, PresetKind::nameplate})
        for (const std::string& preset : preset_names(kind)) {
            const Gpu gpu = read_cluster(preset).gpu;
            for (const std::string& name : words_of(gpu.name + "," + gpu.aliases))
                if (const auto size = gigabytes_in(name)) {
                    // "GH200 480GB", as nvidia-smi prints it, is the memory of the CPU on its
                    // board.
                    if (name.find("GH200") != std::string::npos && (*size == 480 || *size == 120))
                        continue;
                    INFO(preset << ": " << name);
                    CHECK(is_called(gpu.memory, *size));
                    CHECK(is_called(read_cluster(name).gpu.memory, *size));
                    ++named;
                }
        }
    CHECK(named > 40);
}

TEST_CASE("a part with another memory is another machine") {
    const auto memory = [](const char* name) {  // a process sees a little less than the name says
        return std::ceil(read_cluster(name).gpu.memory / Bytes(1 << 30));
    };
    CHECK(memory("A100") == 80);
    CHECK(memory("A100-40GB") == 40);
    CHECK(memory("a100 sxm4 40gb") == 40);
    CHECK(memory("A100-PCIE-40GB") == 40);
    CHECK(memory("V100-16GB") == 16);
    CHECK(memory("V100-SXM2-32GB") == 32);
    CHECK(memory("V100_PCIE_32GB") == 32);
    CHECK(read_cluster("A100-40GB").gpu.memory_bandwidth == BytesPerSecond(1.555e12));
    CHECK_THROWS_WITH(read_cluster("A100-60GB"), Catch::Contains("did you mean"));
}
