#include <catch2/catch.hpp>

#include "measured/transfer_links.h"

using namespace stepcast;

namespace {

// An SM of 1,024 operations per cycle at 2 GHz, by default of a maker with known generations: its
// tensor cores take tf32.
Cluster machine(Fabric fabric, double gigabytes, double tf32 = 1e12) {
    Cluster c;
    c.fabric = fabric;
    c.gpu.sms = 100;
    c.gpu.peaks[Dtype::fp16] = c.gpu.peaks[Dtype::bf16] = FlopsPerSecond(204.8e12);
    c.gpu.peaks[Dtype::tf32] = FlopsPerSecond(tf32);
    c.intra.bandwidth = BytesPerSecond(1e9 * gigabytes);
    return c;
}

// The links that lay_medians() makes from one machine for another's datasheet.
Link moved_links(const Cluster& from, Cluster to) {
    const BytesPerSecond bandwidth = to.intra.bandwidth;
    to.intra = from.intra;
    to.intra.bandwidth = bandwidth;
    to.intra.socket_bandwidth = BytesPerSecond(0);
    Layers layers;
    layers.experiment.cluster = to;
    lay_links(layers, {{from}, {from}, {from}, {from}, {from}});
    return layers.experiment.cluster.intra;
}

double copy_on(const Cluster& from, const Cluster& to) { return moved_links(from, to).gather_copy; }

}  // namespace

// NCCL has four channels at 64 GB/s (counted as 48, above 25) and at 48 (36), two at 32 (24) and at
// 16 GB/s. A channel's SM copies the same bytes per second at each, so a share of 0.8 at 64 GB/s
// becomes 0.8 32/64 4/2 at 32 GB/s, 0.8 16/64 4/2 at 16 and 0.8 48/64 at 48.
TEST_CASE("copies over PCIe go with the link and with the number of channels that it gets") {
    Cluster from = machine(Fabric::pcie, 64);
    from.intra.reduce_copy = from.intra.gather_copy = from.intra.exchange_copy = 0.8;
    CHECK(copy_on(from, machine(Fabric::pcie, 32)) == Approx(0.8));
    CHECK(copy_on(from, machine(Fabric::pcie, 16)) == Approx(0.4));
    CHECK(copy_on(from, machine(Fabric::pcie, 48)) == Approx(0.6));
    const Link four = moved_links(from, machine(Fabric::pcie, 16));
    CHECK(four.reduce_copy == four.gather_copy);
    CHECK(four.exchange_copy == four.gather_copy);
    // Another maker's library has unknown channels, so bytes per second stay: 0.8 32/64.
    CHECK(copy_on(from, machine(Fabric::pcie, 32, 0)) == Approx(0.4));
}

TEST_CASE("copies over NVSwitch go at bytes a second, from another fabric at the share") {
    Cluster from = machine(Fabric::nvswitch, 900);
    from.intra.gather_copy = 0.9;
    CHECK(copy_on(from, machine(Fabric::nvswitch, 300)) == Approx(0.3));
    CHECK(copy_on(from, machine(Fabric::pcie, 64)) == Approx(0.9));
}

// Rings over sockets reach 16 of 64 GB/s, so 8 of 32. All-to-alls reach 2.4 times that, 0.6 of a
// link, on both.
TEST_CASE("an all-to-all reaches the library's share of the links, sockets or not") {
    Cluster from = machine(Fabric::pcie, 64);
    from.intra.socket_bandwidth = BytesPerSecond(16e9);
    from.intra.all_to_all_efficiency = 2.4;
    const Link like = moved_links(from, machine(Fabric::pcie, 32));
    CHECK(like.socket_bandwidth.si() == Approx(8e9));
    CHECK(like.all_to_all_efficiency == Approx(2.4));
    // From NVSwitch, where 0.7 is a share of the link: sockets pass 11.5 / 32 of it to rings that
    // reach 0.8 of a link, 0.449 of 32 GB/s; so 0.7 / 0.449 = 1.558.
    Cluster nvswitch = machine(Fabric::nvswitch, 900);
    nvswitch.intra.ring_efficiency = 0.8;
    nvswitch.intra.all_to_all_efficiency = 0.7;
    const Link unlike = moved_links(nvswitch, machine(Fabric::pcie, 32));
    CHECK(unlike.socket_bandwidth.si() == Approx(32e9 * 11.5 / 32 / 0.8));
    CHECK(unlike.all_to_all_efficiency == Approx(0.7 * 0.8 * 32 / 11.5));
    CHECK(moved_links(nvswitch, machine(Fabric::nvswitch, 450)).all_to_all_efficiency == 0.7);
}

// 2,048 operations per cycle at 1.4 GHz instead of 1,024 at 2: launches take 1 / 0.7 of the time,
// rounds the same time.
TEST_CASE("launches of collectives take cycles, rounds a time") {
    Cluster from = machine(Fabric::nvswitch, 450), to = from;
    to.gpu.peaks[Dtype::fp16] = to.gpu.peaks[Dtype::bf16] = FlopsPerSecond(286.72e12);
    from.intra.launch = from.intra.low_latency.launch = from.intra.low_latency_128.launch =
        Seconds(7e-6);
    from.intra.exchange.launch = from.intra.exchange_launch = from.intra.nvls_launch =
        Seconds(7e-6);
    from.intra.latency = from.intra.low_latency.latency = from.intra.exchange.latency =
        Seconds(1e-6);
    const Link link = moved_links(from, to);
    for (const Seconds launch : {link.launch, link.low_latency.launch, link.low_latency_128.launch,
                                 link.exchange.launch, link.exchange_launch, link.nvls_launch})
        CHECK(launch.si() == Approx(10e-6));
    for (const Seconds round : {link.latency, link.low_latency.latency, link.exchange.latency})
        CHECK(round == Seconds(1e-6));
}
