#include "sim/costs/exchange_law.h"

#include <catch2/catch.hpp>

#include "sim/costs/collective_costs.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

constexpr double KiB = 1024;

// A link of 100 GB/s that reaches its full rate; a channel moves 1 GB/s, of small messages 0.5
// GB/s; starts take 10 us, small messages' 5 us.
Link plain_link() {
    Link link;
    link.bandwidth = 100_GBps;
    link.ring_efficiency = link.all_to_all_efficiency = 1;
    link.exchange = {5_us, {}, 1};
    link.exchange_launch = 10_us;
    link.exchange_channel = BytesPerSecond(1e9);
    link.exchange_small_channel = BytesPerSecond(0.5e9);
    link.exchange_small = Bytes(16 * KiB);
    link.exchange_chunk = Bytes(512 * KiB);
    return link;
}

double microseconds(double message, int ranks, const Link& link, Fabric fabric = Fabric::nvswitch) {
    const ExchangeLoad load{Bytes((ranks - 1) * message), Bytes(message), Bytes(message),
                            ranks - 1.0, ranks};
    return exchange_law_time(load, link, fabric, link.bandwidth, link.exchange_small).si() * 1e6;
}

}  // namespace

// Of 32 channels a pair uses 16; with eight ranks each peer uses 4. A small message of 8 KiB uses
// one channel, one of 16 KiB two, which take 8 KiB / 0.5 GB/s = 16.384 us in parallel.
TEST_CASE("small messages fill one channel after the other") {
    CHECK(microseconds(8 * KiB, 2, plain_link()) == Approx(5 + 16.384));
    CHECK(microseconds(16 * KiB, 2, plain_link()) == Approx(5 + 16.384));
    CHECK(microseconds(4 * KiB, 8, plain_link()) == Approx(5 + 8.192));
}

// 64 KiB, an eighth of a chunk, use one channel: 65.536 us. A pair's 1 MiB uses 16 channels and
// takes as long. From there on 16 channels move all, until a part is longer than a chunk: 9 MiB
// over 16 are 576 KiB, over 32 they are 288 KiB, 294.912 us. Between eight ranks 3 MiB over 4 are
// longer than a chunk, over 8 they are not: 384 KiB, 393.216 us.
TEST_CASE("channels double while a part is longer than a chunk") {
    CHECK(microseconds(64 * KiB, 2, plain_link()) == Approx(10 + 65.536));
    CHECK(microseconds(1024 * KiB, 2, plain_link()) == Approx(10 + 65.536));
    CHECK(microseconds(8 * 1024 * KiB, 2, plain_link()) == Approx(10 + 524.288));
    CHECK(microseconds(9 * 1024 * KiB, 2, plain_link()) == Approx(10 + 294.912));
    CHECK(microseconds(3 * 1024 * KiB, 8, plain_link()) == Approx(10 + 393.216));
}

// 16 MiB over 2 channels at 1 GB/s take 8388.608 us. Small messages end at 16 KiB for each of the
// two channels, whatever the link states: 40 KiB count as large, 32 KiB as small: 16 KiB per
// channel, 32.768 us.
TEST_CASE("a peer without NVLink has two channels") {
    Link link = plain_link();
    link.exchange_chunk = Bytes(128 * KiB);
    link.exchange_small = Bytes(512 * KiB);
    CHECK(microseconds(16 * 1024 * KiB, 2, link, Fabric::pcie) == Approx(10 + 8388.608));
    CHECK(microseconds(32 * KiB, 2, link, Fabric::pcie) == Approx(5 + 32.768));
    CHECK(microseconds(40 * KiB, 2, link, Fabric::pcie) == Approx(10 + 20.48));
}

// With channels of 1 TB/s the link is the limit: 7 x 8 MiB at 100 GB/s take 587.2026 us. Of the 64
// MiB in all, first pieces are 64 x 512 KiB = 32 MiB: half of that time, times the fill of 0.4.
// Copying the own 8 MiB costs half of sending them: 41.943 us more, and half of that for the first
// pieces.
TEST_CASE("first pieces are copied out after they have come") {
    Link link = plain_link();
    link.exchange_channel = BytesPerSecond(1e12);
    CHECK(microseconds(8 * 1024 * KiB, 8, link) == Approx(10 + 587.20256));
    link.exchange_fill = 0.4;
    CHECK(microseconds(8 * 1024 * KiB, 8, link) == Approx(10 + 587.20256 * 1.2));
    link.exchange_copy = 0.5;
    CHECK(microseconds(8 * 1024 * KiB, 8, link) == Approx(10 + (587.20256 + 41.94304) * 1.2));
}

// Between sockets grouped messages may reach more than a ring; but a rank's own link carries at
// most what a ring reaches on it.
TEST_CASE("a rank's own link carries what rings reach of it") {
    Link link = plain_link();
    link.exchange_channel = BytesPerSecond(1e12);
    link.ring_efficiency = 0.8;
    link.all_to_all_efficiency = 1.5;
    const ExchangeLoad load{Bytes(7e6), Bytes(0), Bytes(1e6), 7, 8};
    const auto time = [&](double inside) {
        return exchange_law_time(load, link, Fabric::pcie, BytesPerSecond(inside), Bytes(0)).si() *
               1e6;
    };
    CHECK(time(20e9) == Approx(10 + 7e6 / 30e9 * 1e6));
    CHECK(time(100e9) == Approx(10 + 7e6 / 80e9 * 1e6));
}

// Releases before the cluster's had a higher limit for small messages; kernels that dispatch tokens
// are not grouped sends.
TEST_CASE("an all-to-all of one node follows the law, and the small messages of a release") {
    Cluster c;
    c.gpus_per_node = 2;
    c.intra = plain_link();
    const AllToAll op{std::vector<Bytes>(4, Bytes(32 * KiB))};
    const RingPath path = ring_path(Group{2}, c);
    CHECK(collective_time(op, path, c).si() * 1e6 == Approx(10 + 32.768));
    CHECK(collective_time(op, path, c, Bytes(512 * KiB)).si() * 1e6 == Approx(5 + 16.384));
}
