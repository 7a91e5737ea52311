#include "sim/network/topology.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <limits>

#include "tests/model/files.h"
#include "tests/sim/clusters.h"

using namespace stepcast;
using VertexKind = TopologyVertex::Kind;

namespace {

// The kinds of the vertices on a route, ends included.
std::vector<VertexKind> passed(const Topology& t, int node, int local, int to_node, int to_local) {
    Routes routes(t);
    std::vector<VertexKind> kinds{VertexKind::rank};
    for (const int link : routes.between(node, local, to_node, to_local))
        kinds.push_back(
            t.vertices[static_cast<std::size_t>(t.links[static_cast<std::size_t>(link)].to)].kind);
    return kinds;
}

long count(const Topology& t, VertexKind kind) {
    return std::count_if(t.vertices.begin(), t.vertices.end(),
                         [&](const auto& v) { return v.kind == kind; });
}

}  // namespace

TEST_CASE("ranks of a node meet on its switch, ranks of one rail on its leaf") {
    const auto t = topology_of(switched_nodes(2));
    CHECK(passed(t, 0, 3, 0, 5) ==
          std::vector{VertexKind::rank, VertexKind::node_switch, VertexKind::rank});
    CHECK(passed(t, 0, 3, 1, 3) == std::vector{VertexKind::rank, VertexKind::nic, VertexKind::leaf,
                                               VertexKind::nic, VertexKind::rank});
}

// From rank 3 to rank 5 of another node: over the switch to rank 5 of the own node, whose NIC is on
// the destination's rail.
TEST_CASE("what goes to another rail is relayed inside the node") {
    const auto t = topology_of(switched_nodes(2));
    CHECK(passed(t, 0, 3, 1, 5) == std::vector{VertexKind::rank, VertexKind::node_switch,
                                               VertexKind::rank, VertexKind::nic, VertexKind::leaf,
                                               VertexKind::nic, VertexKind::rank});
}

TEST_CASE("without rails all NICs of the nodes meet on one leaf") {
    auto cluster = switched_nodes(4);
    cluster.network.rails = false;
    cluster.network.nodes_per_leaf = 2;
    const auto t = topology_of(cluster);
    CHECK(count(t, VertexKind::leaf) == 2);
    CHECK(passed(t, 0, 3, 1, 5) == std::vector{VertexKind::rank, VertexKind::nic, VertexKind::leaf,
                                               VertexKind::nic, VertexKind::rank});
    CHECK(passed(t, 0, 3, 2, 5) == std::vector{VertexKind::rank, VertexKind::nic, VertexKind::leaf,
                                               VertexKind::spine, VertexKind::leaf, VertexKind::nic,
                                               VertexKind::rank});
}

// A rail's leaf joins a NIC of 25 GB/s from each of 4 nodes; oversubscribed twice it has 4 x 25 / 2
// = 50 GB/s to the spine.
TEST_CASE("the links to the spine carry what the leaf's NICs do, over the oversubscription") {
    auto cluster = switched_nodes(8);
    cluster.network.nodes_per_leaf = 4;
    cluster.network.oversubscription = 2;
    const auto t = topology_of(cluster);
    const auto up = std::find_if(t.links.begin(), t.links.end(), [&](const TopologyLink& link) {
        return t.vertices[static_cast<std::size_t>(link.to)].kind == VertexKind::spine;
    });
    REQUIRE(up != t.links.end());
    CHECK(up->bandwidth.si() == Approx(50e9));
}

// Ranks 0, 1 | 2, 3 on socket 0, 4, 5 | 6, 7 on socket 1.
TEST_CASE("a PCIe tree has two ranks a switch and two sockets") {
    const auto t = topology_of(pcie_node(8));
    CHECK(count(t, VertexKind::pcie_switch) == 4);
    CHECK(count(t, VertexKind::socket) == 2);
    CHECK(passed(t, 0, 0, 0, 1) ==
          std::vector{VertexKind::rank, VertexKind::pcie_switch, VertexKind::rank});
    CHECK(passed(t, 0, 0, 0, 2) == std::vector{VertexKind::rank, VertexKind::pcie_switch,
                                               VertexKind::socket, VertexKind::pcie_switch,
                                               VertexKind::rank});
    CHECK(passed(t, 0, 3, 0, 4) == std::vector{VertexKind::rank, VertexKind::pcie_switch,
                                               VertexKind::socket, VertexKind::socket,
                                               VertexKind::pcie_switch, VertexKind::rank});
}

TEST_CASE("a pair has a link of its own beside the tree") {
    auto cluster = pcie_node(4);
    cluster.fabric = Fabric::nvlink_pairs;
    cluster.intra.pair_bandwidth = BytesPerSecond(100e9);
    const auto t = topology_of(cluster);
    CHECK(passed(t, 0, 2, 0, 3) == std::vector{VertexKind::rank, VertexKind::rank});
    CHECK(passed(t, 0, 1, 0, 2) == std::vector{VertexKind::rank, VertexKind::pcie_switch,
                                               VertexKind::socket, VertexKind::socket,
                                               VertexKind::pcie_switch, VertexKind::rank});
    cluster.intra.pair_bandwidth = BytesPerSecond(0);  // no bridge
    CHECK(passed(topology_of(cluster), 0, 2, 0, 3) ==
          std::vector{VertexKind::rank, VertexKind::pcie_switch, VertexKind::rank});
}

// Links 0-1 and 1-2: from 0 to 2 over 1. With a host and link 0-1 alone, rank 3 is reached through
// it. NICs stand at their ranks.
TEST_CASE("direct links lead over other ranks, and the host to those that have none") {
    Cluster c;
    c.gpus_per_node = 3;
    c.fabric = Fabric::nvlink_mesh;
    c.intra.bandwidth = BytesPerSecond(80e9);
    c.intra.mesh = {2, 0, 2};
    CHECK(passed(topology_of(c), 0, 0, 0, 1) == std::vector{VertexKind::rank, VertexKind::rank});
    CHECK(passed(topology_of(c), 0, 0, 0, 2) ==
          std::vector{VertexKind::rank, VertexKind::rank, VertexKind::rank});
    c.gpus_per_node = 4;
    c.intra.mesh = {2, 0, 0, 0, 0, 0};
    c.intra.host_bandwidth = BytesPerSecond(20e9);
    CHECK(passed(topology_of(c), 0, 0, 0, 1) == std::vector{VertexKind::rank, VertexKind::rank});
    CHECK(passed(topology_of(c), 0, 0, 0, 3) ==
          std::vector{VertexKind::rank, VertexKind::pcie_switch, VertexKind::socket,
                      VertexKind::socket, VertexKind::pcie_switch, VertexKind::rank});
    c.nodes = 2;
    c.inter.bandwidth = BytesPerSecond(12e9);
    CHECK(passed(topology_of(c), 0, 1, 1, 1) == std::vector{VertexKind::rank, VertexKind::nic,
                                                            VertexKind::leaf, VertexKind::nic,
                                                            VertexKind::rank});
}

// Four NICs are on the four switches of their ranks; a single NIC is on the first socket, so
// ranks 4..7 cross to it.
TEST_CASE("NICs are plugged in beside the ranks that they serve") {
    auto cluster = pcie_node(8);
    cluster.nodes = 2;
    cluster.inter.bandwidth = BytesPerSecond(12e9);
    cluster.network.rails = false;
    cluster.network.nics = 4;
    CHECK(passed(topology_of(cluster), 0, 7, 1, 7) ==
          std::vector{VertexKind::rank, VertexKind::pcie_switch, VertexKind::nic, VertexKind::leaf,
                      VertexKind::nic, VertexKind::pcie_switch, VertexKind::rank});
    cluster.network.nics = 1;
    CHECK(passed(topology_of(cluster), 0, 7, 1, 0) ==
          std::vector{VertexKind::rank, VertexKind::pcie_switch, VertexKind::socket,
                      VertexKind::socket, VertexKind::nic, VertexKind::leaf, VertexKind::nic,
                      VertexKind::socket, VertexKind::pcie_switch, VertexKind::rank});
}

// A GPU of 24 GB/s behind a NIC of 50: no more leaves the node. On a switch the file does not tell
// the GPU's own PCIe.
TEST_CASE("the NIC of a node with one GPU is behind that GPU's PCIe") {
    auto cluster = pcie_node(1);
    cluster.nodes = 2;
    cluster.inter.bandwidth = BytesPerSecond(50e9);
    const auto narrowest = [](const Cluster& c) {
        const Topology t = topology_of(c);
        return std::ranges::min_element(t.links, {}, &TopologyLink::bandwidth)->bandwidth;
    };
    CHECK(narrowest(cluster) == BytesPerSecond(24e9));
    cluster.inter.bandwidth = BytesPerSecond(12e9);
    CHECK(narrowest(cluster) == BytesPerSecond(12e9));
    cluster.fabric = Fabric::nvswitch;
    cluster.inter.bandwidth = BytesPerSecond(50e9);
    CHECK(narrowest(cluster) == BytesPerSecond(50e9));
}

// One node of two ranks on a switch, without NICs or leaves.
TEST_CASE("the whole topology of a node") {
    Cluster c = switched_nodes(1);
    c.gpus_per_node = 2;
    const BytesPerSecond inside(300e9);
    CHECK(topology_of(c) ==
          Topology{.nodes = 1,
                   .ranks_per_node = 2,
                   .nodes_per_leaf = 32,
                   .nodes_of_first_leaf = 1,
                   .vertices_per_node = 3,
                   .links_per_node = 4,
                   .vertices = {{VertexKind::rank, 0, 0},
                                {VertexKind::rank, 0, 1},
                                {VertexKind::node_switch, 0, 0}},
                   .links = {{0, 2, inside}, {2, 0, inside}, {1, 2, inside}, {2, 1, inside}}});
    c.gpus_per_node = 1;
    CHECK(topology_of(c) == Topology{.nodes = 1,
                                     .ranks_per_node = 1,
                                     .nodes_per_leaf = 32,
                                     .nodes_of_first_leaf = 1,
                                     .vertices_per_node = 1,
                                     .links_per_node = 0,
                                     .vertices = {{VertexKind::rank, 0, 0}},
                                     .links = {}});
}

// Two nodes of two ranks below one PCIe switch and socket; three NICs of 10 GB/s for two ranks: 15
// each, on two rails. Vertices of a node: ranks, NICs, switch, socket. A leaf joins one NIC of each
// of up to five nodes and has a third of their rate to the spine: 25.
TEST_CASE("the whole topology of two nodes with rails") {
    Cluster c = pcie_node(2);
    c.nodes = 2;
    c.inter.bandwidth = BytesPerSecond(10e9);
    c.network = {.nics = 3, .rails = true, .nodes_per_leaf = 5, .oversubscription = 3};
    const BytesPerSecond pcie(24e9), nic(15e9), up(25e9),
        host(std::numeric_limits<double>::infinity());
    Topology expected{.nodes = 2,
                      .ranks_per_node = 2,
                      .nodes_per_leaf = 5,
                      .nics = 2,
                      .rails = true,
                      .relayed = false,
                      .shown_nodes = 2,
                      .shown_leaf_groups = 1,
                      .nodes_of_first_leaf = 2,
                      .vertices_per_node = 6,
                      .links_per_node = 14,
                      .links_per_leaf_group = 4,
                      .vertices = {},
                      .links = {}};
    const auto both = [&](int a, int b, BytesPerSecond bandwidth) {
        expected.links.push_back({a, b, bandwidth});
        expected.links.push_back({b, a, bandwidth});
    };
    for (const int node : {0, 1}) {
        for (const auto& [kind, count] : {std::pair{VertexKind::rank, 2},
                                          {VertexKind::nic, 2},
                                          {VertexKind::pcie_switch, 1},
                                          {VertexKind::socket, 1}})
            for (int i = 0; i < count; ++i) expected.vertices.push_back({kind, node, i});
        const int base = 6 * node;
        both(base, base + 4, pcie);
        both(base + 1, base + 4, pcie);
        both(base + 4, base + 5, pcie);
        both(base + 2, base + 4, host);
        both(base + 3, base + 4, host);
        both(base + 2, 12, nic);
        both(base + 3, 13, nic);
    }
    for (const auto& vertex : {TopologyVertex{VertexKind::leaf, 0, 0},
                               {VertexKind::leaf, 0, 1},
                               {VertexKind::spine, 0, 0}})
        expected.vertices.push_back(vertex);
    both(12, 14, up);
    both(13, 14, up);
    CHECK(topology_of(c) == expected);
}

// Leaves of three nodes. The representative part shows two nodes of one leaf and one of another.
// Four nodes have two leaf groups, nine have three, of which it shows two.
TEST_CASE("what is shown of clusters with several leaves") {
    const auto shown = [](int nodes, Extent extent) {
        Cluster c = switched_nodes(nodes);
        c.network.nodes_per_leaf = 3;
        const Topology t = topology_of(c, extent);
        return std::array{t.shown_nodes, t.shown_leaf_groups, t.nodes_of_first_leaf};
    };
    CHECK(shown(2, Extent::representative) == std::array{2, 1, 2});
    CHECK(shown(3, Extent::representative) == std::array{2, 1, 2});
    CHECK(shown(4, Extent::representative) == std::array{3, 2, 2});
    CHECK(shown(9, Extent::representative) == std::array{3, 2, 2});
    CHECK(shown(3, Extent::whole) == std::array{3, 1, 3});
    CHECK(shown(4, Extent::whole) == std::array{4, 2, 3});
    CHECK(shown(9, Extent::whole) == std::array{9, 3, 3});
}

// Three nodes of 8 ranks, 8 NICs, a switch; two groups of 8 leaves; the spine: 3 x 17 + 2 x 8 + 1 =
// 68 vertices of 2048 x 17 + 64 x 8 + 1.
TEST_CASE("three nodes stand for a cluster of 16,384 ranks") {
    const auto part = topology_of(switched_nodes(2048));
    CHECK(part.shown_nodes == 3);
    CHECK(part.vertices.size() == 68);
    const auto whole = topology_of(switched_nodes(2048), Extent::whole);
    CHECK(whole.vertices.size() == 2048 * 17 + 64 * 8 + 1);
    CHECK(whole.links_per_node == part.links_per_node);
    CHECK(whole.links_per_leaf_group == part.links_per_leaf_group);
}

TEST_CASE("a cluster that falls apart is refused by the key that joins it") {
    auto cluster = switched_nodes(2);
    cluster.inter.bandwidth = BytesPerSecond(0);
    CHECK(complaint([&] { topology_of(cluster); }) ==
          "cluster.link.inter.bandwidth: found 0, so rank 0 of node 0 cannot reach rank 0 of node "
          "1; expected the "
          "bandwidth of one NIC");
    cluster = switched_nodes(1);
    cluster.intra.bandwidth = BytesPerSecond(0);
    CHECK(complaint([&] { topology_of(cluster); }) ==
          "cluster.link.intra.bandwidth: found 0, so rank 0 of node 0 cannot reach rank 1 of node "
          "0; expected the "
          "bandwidth of one link inside the node");
    cluster = pcie_node(4);
    cluster.fabric = Fabric::nvlink_pairs;
    cluster.intra.pair_bandwidth = BytesPerSecond(100e9);
    cluster.intra.bandwidth = BytesPerSecond(0);
    CHECK(complaint([&] { topology_of(cluster); }) ==
          "cluster.link.intra.bandwidth: found 0, so rank 0 of node 0 cannot reach rank 2 of node "
          "0; expected the "
          "bandwidth of one link inside the node");
    cluster.gpus_per_node = 2;
    CHECK(complaint([&] { topology_of(cluster); }).empty());
    cluster.nodes = 2;
    cluster.inter.bandwidth = BytesPerSecond(25e9);
    CHECK(complaint([&] { topology_of(cluster); }) ==
          "cluster.link.intra.bandwidth: found 0, so rank 0 of node 0 cannot reach NIC 0 of node "
          "0; expected the "
          "bandwidth of one link inside the node");
}
