#include "sim/network/ring_path.h"

#include <catch2/catch.hpp>

#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "tests/sim/clusters.h"

using namespace stepcast;

namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();
double gbps(BytesPerSecond rate) { return rate.si() / 1e9; }

RingPath ring_of(const std::vector<int>& members, const Cluster& cluster) {
    return ring_path(members, cluster);
}

// Nodes of eight at 300 GB/s with four NICs of 25: each rank has half a NIC, 12.5.
Cluster half_nics() {
    Cluster c = switched_nodes(4);
    c.network.nics = 4;
    c.network.partial_ring = 0.6;
    return c;
}

}  // namespace

// Three ranks of one node and two of the next: the two limit, and a ring with part of a node
// reaches 0.6 of their rate: 2 x 12.5 x 0.6.
TEST_CASE("any list of ranks has its share of the NICs, by the node with fewest of them") {
    const RingPath path = ring_of({0, 1, 2, 8, 9}, half_nics());
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
    CHECK(gbps(ring_of({0, 1, 2, 8, 9}, own).inter) == Approx(30));
}

TEST_CASE("a ring with one or all ranks of its nodes has the whole rate of their NICs") {
    std::vector<int> all(16);
    for (int rank = 0; rank < 16; ++rank) all[static_cast<std::size_t>(rank)] = rank;
    CHECK(gbps(ring_of(all, half_nics()).inter) == Approx(100));
    const RingPath one = ring_of({0, 8, 16}, half_nics());
    CHECK(one.nodes == 3);
    CHECK(gbps(one.inter) == Approx(12.5));
    CHECK(gbps(one.ring) == no_limit);
    CHECK(gbps(one.inside) == no_limit);
    CHECK(gbps(one.pair) == Approx(12.5));
}

TEST_CASE("a list of ranks on one node sees no network, and a rank alone the node's links") {
    const RingPath path = ring_of({1, 2, 5}, half_nics());
    CHECK(path.nodes == 1);
    CHECK(gbps(path.inter) == no_limit);
    CHECK(gbps(path.pair) == Approx(300));
    CHECK(gbps(ring_of({3}, half_nics()).ring) == Approx(300));
}

// Bridges join 0-1, 2-3, .. but not 1-2, nor three ranks, nor any ranks of a node with a switch.
TEST_CASE("two ranks of a list that a bridge joins have its bandwidth") {
    Cluster c = pcie_node(8);
    c.fabric = Fabric::nvlink_pairs;
    c.intra.pair_bandwidth = BytesPerSecond(100e9);
    CHECK(gbps(ring_of({2, 3}, c).ring) == Approx(100));
    CHECK(gbps(ring_of({2, 3}, c).pair) == Approx(100));
    CHECK(gbps(ring_of({0, 1}, c).ring) == Approx(100));
    CHECK(gbps(ring_of({1, 2}, c).ring) == Approx(24));
    CHECK(gbps(ring_of({0, 4}, c).ring) == Approx(24));
    CHECK(gbps(ring_of({2, 3, 4}, c).ring) == Approx(24));
    c.fabric = Fabric::nvswitch;
    CHECK(gbps(ring_of({2, 3}, c).ring) == Approx(24));
}

namespace {

// Ranks joined by direct links; the one with the most has `gigabytes`.
Cluster mesh(int ranks, std::vector<double> links, double gigabytes) {
    Cluster c;
    c.gpus_per_node = ranks;
    c.fabric = Fabric::nvlink_mesh;
    c.intra.bandwidth = BytesPerSecond(gigabytes * 1e9);
    c.intra.mesh = std::move(links);
    return c;
}

// Eight ranks: two of four that all are joined, with double links 0-3 and 1-2, and a double or
// single link from each to its like.
const std::vector<double> cube{1, 1, 2, 2, 0, 0, 0, 2, 1, 0, 2, 0, 0, 2,
                               0, 0, 1, 0, 0, 0, 0, 1, 1, 1, 2, 2, 1, 2};

}  // namespace

// Four ranks, three links of 30 to each other: 270 a rank. Three orders of four (a rank's opposite:
// 1, 2 or 3), each in both directions at half of each link, use up all: 6 x 45 = 270. Three ranks
// have two orders, each with the whole link: 180. Two have 90.
TEST_CASE("rings over direct links use those between their members") {
    const Cluster four = mesh(4, {3, 3, 3, 3, 3, 3}, 270);
    CHECK(gbps(ring_of({0, 1, 2, 3}, four).ring) == Approx(270));
    CHECK(gbps(ring_of({1, 2, 3}, four).ring) == Approx(180));
    CHECK(gbps(ring_of({1, 3}, four).ring) == Approx(90));
    const RingPath all = ring_path(Group{4, 1}, four), pairs = ring_path(Group{2, 1}, four);
    CHECK(gbps(all.ring) == Approx(270));
    CHECK(gbps(all.pair) == Approx(90));
    CHECK(gbps(all.inside) == Approx(270));  // a third of it to each, on a link of its own
    CHECK(gbps(pairs.ring) == Approx(90));
    CHECK(gbps(pairs.inside) == Approx(90));
    CHECK(gbps(mesh_bandwidth(four, 1, 3)) == Approx(90));
    CHECK(gbps(mesh_bandwidth(four, 2, 2)) == 0);
    // Two of the four alone have no more than their link.
    Cluster two = four;
    two.gpus_per_node = 2;
    CHECK(gbps(ring_path(Group{2, 1}, two).ring) == Approx(90));
    // Eight with one link of 64 each: 7 x 64.
    CHECK(gbps(ring_path(Group{8, 1}, mesh(8, std::vector<double>(28, 1), 448)).ring) ==
          Approx(448));
}

// Six links of 25 a rank. All eight: 0-1-3-7-5-4-6-2 over the single links and 0-3-2-1-5-6-7-4
// twice over the double ones, each in both directions: 150. A half: each of its three orders leaves
// out two pairs, 01 and 23, 02 and 13, or 03 and 12. The two orders that use 01 (one link) carry at
// most 1 together, those that use 02 at most 1, those that use 03 at most 2: all three (1 + 1 + 2)
// / 2 = 2, in both directions 4 x 25. Neighbours 0 and 1 have one link, 2 and 3 two: a step of all
// pairs waits for one. Ranks four apart have 2, 2, 1 and 1 links.
TEST_CASE("rings in a cube of eight, its halves and its pairs") {
    const Cluster c = mesh(8, cube, 150);
    CHECK(gbps(ring_path(Group{8, 1}, c).ring) == Approx(150));
    CHECK(gbps(ring_path(Group{4, 1}, c).ring) == Approx(100));
    CHECK(gbps(ring_path(Group{2, 1}, c).ring) == Approx(25));
    CHECK(gbps(ring_path(Group{2, 4}, c).ring) == Approx(25));
    CHECK(gbps(ring_of({0, 4}, c).ring) == Approx(50));
    CHECK(gbps(mesh_bandwidth(c, 0, 5)) == 0);
    // over others
    CHECK(gbps(ring_path(Group{2, 5}, mesh(6, {1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 1, 1}, 90))
                   .ring) == Approx(30));
}

// Islands 0-1-2-3 and 4-5-6-7, each two with two links of 25; between them the host at 20, over one
// link between the sockets. Inside an island 150. Rings of all go through the host: each crosses
// once in each direction.
TEST_CASE("islands of direct links meet in the host") {
    std::vector<double> links;
    for (int a = 0; a < 8; ++a)
        for (int b = a + 1; b < 8; ++b) links.push_back(a / 4 == b / 4 ? 2 : 0);
    Cluster c = mesh(8, links, 150);
    CHECK_THROWS_WITH(topology_of(c), Catch::Matchers::Contains("cannot reach"));
    c.intra.host_bandwidth = BytesPerSecond(20e9);
    CHECK(gbps(ring_path(Group{4, 1}, c).ring) == Approx(150));
    CHECK(gbps(ring_path(Group{8, 1}, c).ring) == Approx(20));
    // four rings at once between the sockets
    CHECK(gbps(ring_path(Group{2, 4}, c).ring) == Approx(5));
    c.intra.socket_bandwidth = BytesPerSecond(8e9);
    CHECK(gbps(ring_path(Group{8, 1}, c).ring) == Approx(8));
    // Over two nodes, three of the four hops of a channel stay in a node: 150 x 4 / 3.
    Cluster nodes = mesh(4, {2, 2, 2, 2, 2, 2}, 150);
    nodes.nodes = 2;
    nodes.inter.bandwidth = BytesPerSecond(12e9);
    CHECK(gbps(ring_path(Group{8, 1}, nodes).ring) == Approx(200));
    CHECK(gbps(ring_path(Group{8, 1}, nodes).inter) == Approx(48));
}

// Two groups, each with four of the eight ranks of two nodes: two NICs per group, and 0.6 of their
// rate.
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
    const std::vector<Group> groups{{2, 1},
                                    {4, 1},
                                    {2, 2},
                                    {2, 1, 2, 8},
                                    {2, 1, 2, 16},
                                    {2, 1, 4, 8},
                                    {.ranks = 2, .stride = 4, .first = 4, .block = 16},
                                    {.ranks = 2, .stride = 4, .block = 16},
                                    {.ranks = 2, .stride = 4},
                                    {.ranks = 2, .stride = 4, .first = 8}};
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
    CHECK(changed([](Cluster& o) { o.intra.mesh = {1}; }));
    CHECK(changed([](Cluster& o) { o.intra.host_bandwidth = BytesPerSecond(1); }));
    CHECK(changed([](Cluster& o) { o.intra.socket_bandwidth = BytesPerSecond(1); }));
    CHECK(changed([](Cluster& o) { o.inter.bandwidth = BytesPerSecond(1); }));
    CHECK_FALSE(changed([](Cluster& o) { o.intra.latency = o.inter.latency = Seconds(1); }));
}
