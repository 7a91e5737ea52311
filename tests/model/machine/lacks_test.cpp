#include "model/machine/lacks.h"

#include <map>

#include "measured/read.h"
#include "model/experiment.h"
#include "model/input/keys.h"
#include "model/input/presets.h"
#include "model/input/toml_reader.h"
#include "model/machine/capability.h"
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
