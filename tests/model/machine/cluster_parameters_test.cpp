#include "model/machine/cluster_parameters.h"

#include <catch2/catch.hpp>

#include "model/experiment.h"

using namespace stepcast;

namespace {

const ClusterParameter* find(const std::vector<ClusterParameter>& all, const std::string& key) {
    for (const ClusterParameter& p : all)
        if (p.key == key) return &p;
    return nullptr;
}

}  // namespace

TEST_CASE("the parameters of a cluster are its numbers other than zero, with what they are") {
    Cluster c;
    c.intra.bandwidth = BytesPerSecond(100e9);
    c.kernel.memory_curve = {{Bytes(1), Seconds(1)}, {Bytes(2), Seconds(3)}};
    const std::vector<ClusterParameter> all = cluster_parameters(c);
    using Kind = ClusterParameter::Kind;
    REQUIRE(find(all, "link.intra.bandwidth"));
    CHECK(*find(all, "link.intra.bandwidth") == ClusterParameter{"link.intra.bandwidth", "100 GB/s", Kind::stated});
    CHECK(*find(all, "kernel.launch") == ClusterParameter{"kernel.launch", "2.4 us", Kind::time});
    CHECK(*find(all, "kernel.gemm_efficiency") == ClusterParameter{"kernel.gemm_efficiency", "0.92", Kind::share});
    CHECK(*find(all, "kernel.memory_curve") == ClusterParameter{"kernel.memory_curve", "2 measured", Kind::table});
    CHECK_FALSE(find(all, "link.inter.bandwidth"));  // zero
    CHECK_FALSE(find(all, "nodes"));
    CHECK_FALSE(find(all, "name"));
}

TEST_CASE("scaling changes one parameter, of a table every time") {
    Cluster c;
    c.kernel.memory_curve = {{Bytes(1), Seconds(1)}, {Bytes(2), Seconds(3)}};
    Cluster expected = c;
    expected.kernel.memory_curve = {{Bytes(1), Seconds(2)}, {Bytes(2), Seconds(6)}};
    CHECK(with_scaled(c, "kernel.memory_curve", 2) == expected);
    expected = c;
    expected.host.call = Seconds(10e-6);
    CHECK(with_scaled(c, "host.call", 2) == expected);
    c.gpu.sms = 108;
    CHECK(with_scaled(c, "gpu.sms", 1.1).gpu.sms == 119);  // 118.8
    CHECK_THROWS_AS(with_scaled(c, "link.intra.bandwidth", 2), std::logic_error);
    CHECK_THROWS_AS(with_scaled(c, "nodes", 2), std::logic_error);
}
