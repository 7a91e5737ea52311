#include <catch2/catch.hpp>

#include "model/input/key_values.h"
#include "sim/calibration.h"
#include "sim/explain/cluster_parameters.h"

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
    c.power.limit = 700;
    c.power.flop = 1;
    const std::vector<ClusterParameter> all = cluster_parameters(c);
    using Kind = ClusterParameter::Kind;
    REQUIRE(find(all, "link.intra.bandwidth"));
    CHECK(*find(all, "link.intra.bandwidth") ==
          ClusterParameter{"link.intra.bandwidth", "100 GB/s", Kind::stated});
    // from a datasheet, like a bandwidth; the energy of an operation is not
    REQUIRE(find(all, "power.limit_w"));
    CHECK(find(all, "power.limit_w")->kind == Kind::stated);
    CHECK(find(all, "power.flop_pj")->kind == Kind::share);
    CHECK(*find(all, "kernel.launch") == ClusterParameter{"kernel.launch", "2.4 us", Kind::time});
    CHECK(*find(all, "kernel.gemm_efficiency") ==
          ClusterParameter{"kernel.gemm_efficiency", "0.92", Kind::share});
    CHECK(*find(all, "kernel.memory_curve") ==
          ClusterParameter{"kernel.memory_curve", "2 measured", Kind::table});
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

// Twice the rate: 1 s of the shortest message stays, the 4 s beyond it become 2. Half of the
// latency: the first 1 s becomes 0.5, the rest stays. The other link's measurements stay as they
// are. So do the kernels' tables, with the device's rates and the launch.
TEST_CASE("what was measured follows the rate and the fixed cost that it was measured with") {
    Cluster c;
    c.intra.bandwidth = BytesPerSecond(1e9);
    c.intra.latency = Seconds(2e-6);
    c.intra.all_reduce = {{Bytes(1), Seconds(1)}, {Bytes(2), Seconds(5)}};
    c.inter.all_reduce = c.intra.all_reduce;
    Cluster expected = c;
    expected.intra.bandwidth = BytesPerSecond(2e9);
    expected.intra.all_reduce = {{Bytes(1), Seconds(1)}, {Bytes(2), Seconds(3)}};
    CHECK(with_scaled(c, "link.intra.bandwidth", 2) == expected);
    expected = c;
    expected.intra.latency = Seconds(1e-6);
    expected.intra.all_reduce = {{Bytes(1), Seconds(0.5)}, {Bytes(2), Seconds(4.5)}};
    CHECK(with_scaled(c, "link.intra.latency", 0.5) == expected);
    c.gpu.memory_bandwidth = BytesPerSecond(1e9);
    c.kernel.memory_curve = c.intra.all_reduce;
    expected = c;
    expected.gpu.memory_bandwidth = BytesPerSecond(2e9);
    expected.kernel.memory_curve = {{Bytes(1), Seconds(1)}, {Bytes(2), Seconds(3)}};
    CHECK(with_scaled(c, "gpu.memory_bandwidth", 2) == expected);
    c.gpu.peaks[Dtype::fp32] = FlopsPerSecond(1e12);
    c.kernel.gemm_table = {{.m = 8, .n = 8, .k = 8, .time = Seconds(5)},
                           {.m = 4, .n = 4, .k = 4, .time = Seconds(1)}};
    expected = c;
    expected.gpu.peaks[Dtype::fp32] = FlopsPerSecond(2e12);
    expected.kernel.gemm_table[0].time = Seconds(3);
    CHECK(with_scaled(c, "gpu.peak.fp32", 2) == expected);
}

TEST_CASE("rows of attention kernels of older cluster files are read") {
    const auto rows = [](std::vector<ConfigValue> row) {
        return ConfigValue{std::vector<ConfigValue>{ConfigValue{std::move(row)}}};
    };
    const auto text = [](const char* t) { return ConfigValue{std::string(t)}; };
    std::vector<AttentionKernel> old, now;
    read_value(rows({text("A"),
                     text("10 us"),
                     {0.7},
                     {60.0},
                     {200.0},
                     {0.5},
                     {0.6},
                     {0.4},
                     {80.0},
                     {std::int64_t{64}}}),
               old);
    read_value(rows({text("A"),
                     text("10 us"),
                     {0.7},
                     {60.0},
                     {200.0},
                     {0.5},
                     {0.6},
                     {0.6},
                     text("0 s"),
                     {1.0},
                     {0.4},
                     {80.0},
                     {std::int64_t{64}},
                     {true}}),
               now);
    CHECK(old == now);
    CHECK(old.at(0) == AttentionKernel{.name = "A",
                                       .launch = Seconds(10e-6),
                                       .efficiency = 0.7,
                                       .width = 60,
                                       .fill = 200,
                                       .corner = 0.5,
                                       .traffic = 0.6,
                                       .cache = 0.6,
                                       .token = Seconds(0),
                                       .odd = 1,
                                       .fp8_efficiency = 0.4,
                                       .tile = 64,
                                       .slides = true});
}

// A fit with one parameter of products and two tables of kernels by name: one from rows, one
// copied.
TEST_CASE(
    "kernels that were fitted by name are measured, those taken over from another machine are "
    "not") {
    Cluster c;
    c.fitted.emplace();
    FittedParameter gemm;
    gemm.key = "kernel.gemm_k0";
    gemm.determined = true;
    c.fitted->parameters = {gemm};
    c.fitted->constants = {{"kernel.attention_kernels", 12, "attention.csv"},
                           {"kernel.expert_kernels", 7, "prior, or copied from other"}};
    CHECK(is_determined(c, "kernel.attention_efficiency"));
    CHECK_FALSE(is_determined(c, "kernel.fused_efficiency"));
    const auto kinds = calibrations_of(c);
    CHECK(kinds[0] == KindCalibration{"GEMM", 1});
    CHECK(kinds[1] == KindCalibration{"attention", 12});
    CHECK(kinds[3] == KindCalibration{"expert kernels", 0});
    c.fitted->constants.front().from = "prior";
    CHECK_FALSE(is_determined(c, "kernel.attention_efficiency"));
    CHECK(unmeasured_kinds(c).starts_with("attention, memory-bound kernels, expert kernels"));
    c.fitted->constants.front().from = "attention.csv";
    CHECK(calibration_text(c).starts_with(
        "GEMM: 1 constant; attention: 12 constants; memory-bound kernels: not measured; "));
}
