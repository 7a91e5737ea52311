#include <catch2/catch.hpp>

#include "measured/priors.h"
#include "measured/read.h"
#include "model/cluster.h"
#include "model/experiment.h"
#include "model/input/presets.h"
#include "model/machine/cluster_file.h"
#include "tests/model/files.h"

using namespace stepcast;

TEST_CASE("every shipped nameplate states a machine and its source, and is fitted to nothing") {
    const auto names = preset_names(PresetKind::nameplate);
    CHECK(names.size() >= 14);
    CHECK(has_like_machine(read_cluster("H20")));              // H100, H200
    CHECK_FALSE(has_like_machine(read_cluster("A10")));        // no Ampere over PCIe
    CHECK_FALSE(has_like_machine(read_cluster("V100-PCIe")));  // neither Volta
    CHECK_FALSE(has_like_machine(read_cluster("MI300X")));     // nothing of AMD's
    CHECK(unmeasured_maker(read_cluster("MI300X").gpu) == "AMD");
    CHECK(unmeasured_maker(read_cluster("arc-b60-x8").gpu).empty());  // measured
    CHECK(unmeasured_maker(read_cluster("H20").gpu).empty());
    int of_amd = 0;
    for (const std::string& name : names) {
        INFO(name);
        CHECK((maker_of(read_cluster(name).gpu) == "AMD") == name.starts_with("mi"));
        of_amd += name.starts_with("mi");
        const Cluster c = read_cluster(name);
        CHECK(c.name == name);
        CHECK_FALSE(c.source.empty());
        CHECK_FALSE(c.fitted);
        // of a measured machine with another memory: it copies that one's constants
        const bool variant = !c.inherits.empty();
        CHECK(c.gpu.sms > 0);
        CHECK(c.gpu.peaks[Dtype::fp16] > c.gpu.peaks[Dtype::fp32]);
        CHECK(c.gpu.memory_bandwidth > BytesPerSecond(0));
        CHECK((c.intra.bandwidth > BytesPerSecond(0) && c.inter.bandwidth > BytesPerSecond(0)));
        CHECK(c.power.limit > c.power.idle);
        // How far steps predicted from priors are off; more if no machine is alike: sqrt(0.2^2 +
        // 0.272^2 - 0.093^2).
        if (!variant)
            CHECK(c.noise.step == Approx(has_like_machine(c) ? 0.2 : 0.325).epsilon(0.01));
        CHECK(preset_path(PresetKind::cluster, c.gpu.name) ==
              preset_path(PresetKind::nameplate, name));
    }
    CHECK(of_amd == 5);
}

// The written file leaves the constants to the priors, so that it reads like the nameplate itself.
TEST_CASE("a nameplate is written without constants") {
    const TestFolder folder;
    const Cluster plate = read_cluster("h20-x8");
    const std::string text = write_nameplate(plate);
    CHECK_THAT(text,
               !Catch::Contains("efficiency") && Catch::Contains("memory_bandwidth = \"4 TB/s\""));
    CHECK(read_cluster(folder.write("mine.toml", text)) == plate);
}

// The same die with fewer NVLinks: products of H800 and A800 are those of H100 and A100.
TEST_CASE("a nameplate of a measured die computes as the measured one") {
    for (const auto& [plate, measured] : {std::pair{"A800", "dgx-a100"}, {"H800", "dgx-h100"}}) {
        const Cluster a = read_cluster(plate), b = read_cluster(measured);
        CHECK(a.kernel.gemm_efficiency == Approx(b.kernel.gemm_efficiency).epsilon(0.05));
        CHECK(a.kernel.training_gemm == Approx(b.kernel.training_gemm).epsilon(0.05));
        CHECK(a.intra.bandwidth < b.intra.bandwidth);
    }
}
