#include "model/machine/libraries.h"

#include "measured/read.h"
#include "tests/model/files.h"

using namespace stepcast;

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

// An MI300X is forecast from what NVIDIA's machines have in common, but not with the reduction in
// their switch.
TEST_CASE("no machine of another maker reduces in an NVSwitch") {
    CHECK(read_cluster("dgx-h100").intra.nvls_efficiency > 0);
    CHECK(read_cluster("H20").intra.nvls_efficiency > 0);
    for (const char* name : {"MI300X", "arc-b60-x8", "dgx-a100", "dgx-v100"})
        CHECK(read_cluster(name).intra.nvls_efficiency == 0);
}
