#include "model/machine/libraries.h"

#include <algorithm>

#include "measured/read.h"
#include "model/experiment.h"
#include "model/input/keys.h"
#include "model/input/presets.h"
#include "model/input/toml_reader.h"
#include "tests/model/files.h"

using namespace stepcast;

TEST_CASE("every rule of what libraries lack is of a key, its values, a capability and a source") {
    CHECK(known_lacks().size() >= 8);
    for (const Lack& lack : known_lacks()) {
        INFO(lack.key << " = " << lack.value);
        const Key* const key = find_key(lack.key);
        REQUIRE(key);
        Experiment e;
        CHECK_NOTHROW(assign_text(*key, e, lack.value));
        if (!lack.instead.empty()) CHECK_NOTHROW(assign_text(*key, e, lack.instead));
        CHECK((lack.capability > 70 && lack.capability < 130));
        CHECK(lack.source.size() > 10);
    }
}

TEST_CASE("what libraries hold is stated with its source, for every generation") {
    CHECK(nccl_buffers().source.size() > 10);
    CHECK(nccl_buffers().lazy_from > 20000);
    CHECK(layer_launches().source.size() > 10);
    for (const char* name : {"dgx-v100", "dgx-a100", "dgx-h100", "b200-x8", "b300-x8"}) {
        INFO(name);
        const Gpu gpu = read_cluster(name).gpu;
        CHECK(context_in(gpu) > Bytes(0));
        for (const bool linked : {true, false}) {
            const NcclChannels channels = nccl_channels(gpu, linked);
            CHECK((channels.node >= 2 && channels.peer >= 2));
            CHECK(channels.source.size() > 10);
        }
    }
    // 32 MiB on Hopper and Blackwell, 2 x 4096 + 8 x 16 KiB on older ones
    CHECK(product_workspace(read_cluster("dgx-h100").gpu).si() == 32.0 * 1048576);
    CHECK(product_workspace(read_cluster("b200-x8").gpu).si() == 32.0 * 1048576);
    CHECK(product_workspace(read_cluster("dgx-a100").gpu).si() == 8320.0 * 1024);
    CHECK(context_in(Gpu{}) == Bytes(0));
    CHECK(nccl_channels(Gpu{}, true).node == 0);
    // other makers' machines, some of which have a generation by their types, state the whole
    for (const char* name : {"MI300X", "MI250X", "arc-b60-x8"})
        CHECK(read_cluster(name).overheads.context.value_or(Bytes(0)) > Bytes(0));
}

// devices.toml states each device's compute capability: a machine's file must not have a rate that
// begins at a later one, nor be taken for an earlier or later generation.
TEST_CASE("no shipped machine has a rate that its chip lacks") {
    std::map<std::string, std::pair<int, std::string>> devices;  // row -> sm, cluster
    for (const TomlEntry& entry :
         read_toml(home_folder() + "/model/presets/devices.toml").entries) {
        const auto last = entry.path.rfind('.');
        auto& device = devices[entry.path.substr(0, last)];
        if (const auto* sm = std::get_if<std::int64_t>(&entry.value.value);
            sm && entry.path.ends_with(".sm"))
            device.first = static_cast<int>(*sm);
        if (const auto* text = std::get_if<std::string>(&entry.value.value);
            text && entry.path.ends_with(".cluster"))
            device.second = *text;
    }
    int checked = 0;
    for (const auto& [row, device] : devices) {
        const auto& [sm, cluster] = device;
        if (sm == 0) continue;  // of another maker
        const Gpu gpu = read_cluster(cluster).gpu;
        INFO(cluster);
        for (const Lack& lack : known_lacks()) {
            if (lack.key != "workload.dtype" || sm >= lack.capability) continue;
            CHECK_FALSE(gpu.peaks[parse_name<Dtype>(lack.value)] > FlopsPerSecond(0));
            ++checked;
        }
        CHECK(capability(gpu) <= sm);
        for (const int begin : {80, 89, 100}) CHECK((capability(gpu) >= begin) == (sm >= begin));
    }
    CHECK(checked > 30);
}

// An MI300X is forecast from what NVIDIA's machines have in common, but not with the reduction in
// their switch.
TEST_CASE("no machine of another maker reduces in an NVSwitch") {
    CHECK(read_cluster("dgx-h100").intra.nvls_efficiency > 0);
    CHECK(read_cluster("H20").intra.nvls_efficiency > 0);
    for (const char* name : {"MI300X", "arc-b60-x8", "dgx-a100", "dgx-v100"})
        CHECK(read_cluster(name).intra.nvls_efficiency == 0);
}
