#include "sim/network/ring_path.h"

#include <catch2/catch.hpp>

#include <functional>
#include <limits>

#include "tests/sim/clusters.h"

using namespace stepcast;

namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();
double gbps(BytesPerSecond rate) { return rate.si() / 1e9; }

RingPath of(const std::vector<int>& members, const Cluster& cluster) { return ring_path(members, cluster); }

// Nodes of eight at 300 GB/s with four NICs of 25: each rank has half a NIC, 12.5.
Cluster half_nics() {
    Cluster c = switched_nodes(4);
    c.network.nics = 4;
    c.network.partial_ring = 0.6;
    return c;
}

}  // namespace

// Three ranks of one node and two of the next: the two limit, and a ring with part of a node reaches 0.6 of their rate: 2 x 12.5 x 0.6.
TEST_CASE("any list of ranks has its share of the NICs, by the node with fewest of them") {
    const RingPath path = of({0, 1, 2, 8, 9}, half_nics());
    CHECK(path.ranks == 5);
    CHECK(path.nodes == 2);
    CHECK(path.node_of == std::vector<int>{0, 0, 0, 1, 1});
    CHECK(gbps(path.ring) == Approx(300));
    CHECK(gbps(path.inside) == Approx(300));
    CHECK(gbps(path.inter) == Approx(15));
    CHECK(gbps(path.pair) == Approx(12.5));
    CHECK(gbps(path.between) == Approx(12.5));
    Cluster own = half_nics();
    own.network.nics = 0;
    CHECK(gbps(of({0, 1, 2, 8, 9}, own).inter) == Approx(30));
}

TEST_CASE("a ring with one or all ranks of its nodes has the whole rate of their NICs") {
    std::vector<int> all(16);
    for (int rank = 0; rank < 16; ++rank) all[static_cast<std::size_t>(rank)] = rank;
    CHECK(gbps(of(all, half_nics()).inter) == Approx(100));
    const RingPath one = of({0, 8, 16}, half_nics());
    CHECK(one.nodes == 3);
    CHECK(gbps(one.inter) == Approx(12.5));
    CHECK(gbps(one.ring) == no_limit);
    CHECK(gbps(one.inside) == no_limit);
    CHECK(gbps(one.pair) == Approx(12.5));
}

TEST_CASE("a list of ranks on one node sees no network, and a rank alone the node's links") {
    const RingPath path = of({1, 2, 5}, half_nics());
    CHECK(path.nodes == 1);
    CHECK(gbps(path.inter) == no_limit);
    CHECK(gbps(path.pair) == Approx(300));
    CHECK(gbps(of({3}, half_nics()).ring) == Approx(300));
}

// Bridges join 0-1, 2-3, .. but not 1-2, nor three ranks, nor any ranks of a node with a switch.
TEST_CASE("two ranks of a list that a bridge joins have its bandwidth") {
    Cluster c = pcie_node(8);
    c.fabric = Fabric::nvlink_pairs;
    c.intra.pair_bandwidth = BytesPerSecond(100e9);
    CHECK(gbps(of({2, 3}, c).ring) == Approx(100));
    CHECK(gbps(of({2, 3}, c).pair) == Approx(100));
    CHECK(gbps(of({0, 1}, c).ring) == Approx(100));
    CHECK(gbps(of({1, 2}, c).ring) == Approx(24));
    CHECK(gbps(of({0, 4}, c).ring) == Approx(24));
    CHECK(gbps(of({2, 3, 4}, c).ring) == Approx(24));
    c.fabric = Fabric::nvswitch;
    CHECK(gbps(of({2, 3}, c).ring) == Approx(24));
}

// Two groups, each with four of the eight ranks of two nodes: two NICs per group, and 0.6 of their rate.
TEST_CASE("a group by its rule has the rates of its path, and the share of a partial ring") {
    const Cluster c = half_nics();
    const RingPath path = ring_path(Group{8, 2}, c);
    Cluster whole = c;
    whole.network.partial_ring = 1;
    RingPath expected = ring_path(Group{8, 2}, whole);
    CHECK(gbps(expected.inter) == Approx(50));
    expected.inter = 0.6 * expected.inter;
    CHECK(path == expected);
    CHECK(path.node_of == std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1});
    CHECK(gbps(ring_path(Group{16, 1}, c).inter) == Approx(100));  // whole nodes
    CHECK(gbps(ring_path(Group{4, 8}, c).inter) == Approx(12.5));  // one of each
}

TEST_CASE("paths of many groups are told apart by every number of their rules") {
    const Cluster c = half_nics();
    RingPaths paths(c);
    const std::vector<Group> groups{{2, 1},  {4, 1},  {2, 2},  {2, 1, 2, 8}, {2, 1, 2, 16}, {2, 1, 4, 8}, {.ranks = 2, .stride = 4, .first = 4, .block = 16},
                                    {.ranks = 2, .stride = 4, .block = 16}, {.ranks = 2, .stride = 4}, {.ranks = 2, .stride = 4, .first = 8}};
    for (int again = 0; again < 2; ++again)
        for (const Group& group : groups) CHECK(paths.of(group) == ring_path(group, c));
    CHECK(&paths.of(groups[1]) == &paths.of(groups[1]));
}

TEST_CASE("paths are the same where links, network and nodes are") {
    const Cluster c = half_nics();
    const auto changed = [&](const std::function<void(Cluster&)>& change) {
        Cluster other = c;
        change(other);
        return !same_paths(c, other);
    };
    CHECK(same_paths(c, c));
    CHECK(changed([](Cluster& o) { o.nodes = 5; }));
    CHECK(changed([](Cluster& o) { o.gpus_per_node = 4; }));
    CHECK(changed([](Cluster& o) { o.fabric = Fabric::pcie; }));
    CHECK(changed([](Cluster& o) { o.network.rails = false; }));
    CHECK(changed([](Cluster& o) { o.intra.bandwidth = BytesPerSecond(1); }));
    CHECK(changed([](Cluster& o) { o.intra.pair_bandwidth = BytesPerSecond(1); }));
    CHECK(changed([](Cluster& o) { o.intra.socket_bandwidth = BytesPerSecond(1); }));
    CHECK(changed([](Cluster& o) { o.inter.bandwidth = BytesPerSecond(1); }));
    CHECK_FALSE(changed([](Cluster& o) { o.intra.latency = o.inter.latency = Seconds(1); }));
}
