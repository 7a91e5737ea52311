#include "measured/read.h"

#include <catch2/catch.hpp>

#include "model/input/key_table.h"
#include "model/input/layers.h"
#include "model/input/presets.h"
#include "model/machine/cluster_file.h"

using namespace stepcast;

namespace {

Layers stated_layers(const std::string& name) {
    Layers layers;
    lay_cluster(layers, preset_path(PresetKind::cluster, name));
    return layers;
}

}  // namespace

TEST_CASE("a machine is completed only where its file says nothing") {
    for (const char* name : {"H20", "MI300X", "l40s-x8", "dgx-h100"}) {
        CAPTURE(name);
        Experiment stated, whole;
        stated.cluster = stated_cluster(name);
        whole.cluster = read_cluster(name);
        const Layers layers = stated_layers(name);
        int added = 0;
        for (const Key& key : keys_of("cluster.")) {
            if (is_preset(key) || text_of(key, stated) == text_of(key, whole)) continue;
            CAPTURE(key.path);
            ++added;
            CHECK_FALSE(layers.said.contains(std::string(key.path)));
        }
        CHECK((added > 0) == layers.unmeasured.has_value());
        CHECK(layers.unmeasured.has_value() == !whole.cluster.fitted.has_value());
    }
}

TEST_CASE("a machine that is set later is the machine that is read") {
    Experiment e = read_experiment("llama3_8b_h100_fsdp");
    set_key(e, {"cluster.preset", "H20"});
    CHECK(e.cluster.kernel == read_cluster("H20").kernel);
    CHECK(e.cluster.gpu == read_cluster("H20").gpu);
}
