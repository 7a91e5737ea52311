#include "sim/network/wiring.h"

#include <catch2/catch.hpp>

#include <string>

#include "tests/model/files.h"
#include "tests/sim/clusters.h"

using namespace stepcast;

namespace {

// How many of each a node has, in the order in which their links are numbered.
struct Items {
    int ranks, nics = 0, switches = 0;
};

// "r3>" is the link of rank 3 to what it hangs on, ">r3" the way back; n: NIC, s: PCIe switch, "0>1": between the sockets, "r2>r3": a
// bridge, L: leaf to spine. Behind "/" the node or leaf that it belongs to.
std::string named(const WiredLink& link, const Items& items) {
    const auto both = [](const std::string& what, int number) { return number % 2 == 0 ? what + ">" : ">" + what; };
    const std::string owner = "/" + std::to_string(link.owner);
    int item = link.number / 2;
    if (link.of_leaf) return both("L" + std::to_string(item), link.number) + owner;
    for (const auto& [letter, count] : {std::pair{"r", items.ranks}, {"n", items.nics}, {"s", items.switches}}) {
        if (item < count) return both(letter + std::to_string(item), link.number) + owner;
        item -= count;
    }
    if (item == 0) return (link.number % 2 == 0 ? "0>1" : "1>0") + owner;
    const int rank = link.number - 2 * (items.ranks + items.nics + items.switches + 1);
    return "r" + std::to_string(rank) + ">r" + std::to_string(rank ^ 1) + owner;
}

std::string route(const Cluster& cluster, const Items& items, const Flow& flow) {
    Wiring wiring(cluster);
    std::string text;
    for (const WiredLink& link : wiring.route(flow)) text += (text.empty() ? "" : " ") + named(link, items);
    return text;
}

}  // namespace

TEST_CASE("ranks of a node meet on its switch, ranks of one rail on its leaf") {
    CHECK(route(switched_nodes(2), {8, 8}, {0, 3, 0, 5}) == "r3>/0 >r5/0");
    CHECK(route(switched_nodes(2), {8, 8}, {0, 3, 1, 3}) == "n3>/0 >n3/1");
}

// From rank 3 to rank 5 of another node: over the switch to rank 5 of the own node, whose NIC is on the right rail.
TEST_CASE("what goes to another rail is relayed inside the node") {
    CHECK(route(switched_nodes(2), {8, 8}, {0, 3, 1, 5}) == "r3>/0 >r5/0 n5>/0 >n5/1");
    auto cluster = switched_nodes(2);
    cluster.network.nics = 4;  // NIC 2 serves ranks 4 and 5
    CHECK(route(cluster, {8, 4}, {0, 3, 1, 5}) == "r3>/0 >r4/0 n2>/0 >n2/1");
    CHECK(route(cluster, {8, 4}, {0, 4, 1, 5}) == "n2>/0 >n2/1");
}

TEST_CASE("without rails all NICs of the nodes meet on one leaf") {
    auto cluster = switched_nodes(4);
    cluster.network.rails = false;
    cluster.network.nodes_per_leaf = 2;
    CHECK(Wiring(cluster).links_of_leaf().size() == 2);
    CHECK(route(cluster, {8, 8}, {0, 3, 1, 5}) == "n3>/0 >n5/1");
    CHECK(route(cluster, {8, 8}, {0, 3, 2, 5}) == "n3>/0 L0>/0 >L0/1 >n5/2");
}

// A leaf of a rail takes a NIC of 25 GB/s from each of 4 nodes, so it has 4 x 25 / 2 = 50 GB/s to a spine that is
// oversubscribed twice.
TEST_CASE("the links to the spine carry what the leaf's NICs do, over the oversubscription") {
    auto cluster = switched_nodes(8);
    cluster.network.nodes_per_leaf = 4;
    cluster.network.oversubscription = 2;
    CHECK(Wiring(cluster).links_of_leaf() == std::vector<double>(16, 1 / 50e9));
    CHECK(route(cluster, {8, 8}, {3, 0, 4, 0}) == "n0>/3 L0>/0 >L0/1 >n0/4");
    CHECK(route(cluster, {8, 8}, {2, 0, 3, 0}) == "n0>/2 >n0/3");
}

// Ranks 0, 1 | 2, 3 on socket 0, 4, 5 | 6, 7 on socket 1.
TEST_CASE("a PCIe tree has two ranks a switch and two sockets") {
    const auto inside = [](int from, int to) { return route(pcie_node(8), {8, 0, 4}, {0, from, 0, to}); };
    CHECK(inside(0, 1) == "r0>/0 >r1/0");
    CHECK(inside(0, 2) == "r0>/0 s0>/0 >s1/0 >r2/0");
    CHECK(inside(3, 4) == "r3>/0 s1>/0 0>1/0 >s2/0 >r4/0");
    CHECK(inside(6, 1) == "r6>/0 s3>/0 1>0/0 >s0/0 >r1/0");
}

TEST_CASE("a pair has a link of its own beside the tree") {
    auto cluster = pcie_node(4);
    cluster.fabric = Fabric::nvlink_pairs;
    cluster.intra.pair_bandwidth = BytesPerSecond(100e9);
    CHECK(route(cluster, {4, 0, 2}, {0, 2, 0, 3}) == "r2>r3/0");
    CHECK(route(cluster, {4, 0, 2}, {0, 1, 0, 2}) == "r1>/0 s0>/0 0>1/0 >s1/0 >r2/0");
    cluster.intra.pair_bandwidth = BytesPerSecond(0);  // no bridge
    CHECK(route(cluster, {4, 0, 2}, {0, 2, 0, 3}) == "r2>/0 >r3/0");
}

// Four NICs on four switches sit beside their ranks; one NIC for all is on the first socket, so ranks 4..7 cross. With rails the leaves of two
// NICs meet on the spine, also below one leaf, as nothing is relayed over PCIe.
TEST_CASE("NICs are plugged in beside the ranks that they serve") {
    auto cluster = pcie_node(8);
    cluster.nodes = 2;
    cluster.inter.bandwidth = BytesPerSecond(12e9);
    cluster.network.rails = false;
    cluster.network.nics = 4;
    CHECK(route(cluster, {8, 4, 4}, {0, 7, 1, 7}) == "r7>/0 n3>/0 >n3/1 >r7/1");
    cluster.network.nics = 1;
    CHECK(route(cluster, {8, 1, 4}, {0, 7, 1, 0}) == "r7>/0 s3>/0 1>0/0 n0>/0 >n0/1 >s0/1 >r0/1");
    cluster.network.nics = 4;
    cluster.network.rails = true;
    CHECK(route(cluster, {8, 4, 4}, {0, 7, 1, 0}) == "r7>/0 n3>/0 L3>/0 >L0/0 >n0/1 >r0/1");
}

// Two ranks on a switch, and nothing beside it; a rank alone has a link that nothing takes.
TEST_CASE("what the links of a node carry") {
    Cluster c = switched_nodes(1);
    c.gpus_per_node = 2;
    const double inside = 1 / 300e9;
    CHECK(Wiring(c).links_of_node() == std::vector{inside, inside, inside, inside, inside, inside, 0.0, 0.0});
    // Below one PCIe switch and socket, three NICs of 10 GB/s for two ranks, on two rails: 15 each. A leaf takes one NIC of each of up to
    // five nodes, and has a third of that to the spine: 25.
    c = pcie_node(2);
    c.nodes = 2;
    c.inter.bandwidth = BytesPerSecond(10e9);
    c.network = {.nics = 3, .rails = true, .nodes_per_leaf = 5, .oversubscription = 3};
    const double pcie = 1 / 24e9, nic = 1 / 15e9;
    CHECK(Wiring(c).links_of_node() == std::vector{pcie, pcie, pcie, pcie, nic, nic, nic, nic, pcie, pcie, pcie, pcie, 0.0, 0.0});
    CHECK(Wiring(c).links_of_leaf() == std::vector<double>(4, 1 / 25e9));
}

// Leaves of three nodes: the focus of a node is what lies below its leaf. Rank 0 of node 4 sends to node 5, one to a node below another leaf:
// its NIC carries both, the leaf's link one.
TEST_CASE("loads are counted below one leaf") {
    Cluster c = switched_nodes(8);
    c.network.nodes_per_leaf = 3;
    Wiring wiring(c);
    LinkLoads loads(wiring, 4);
    CHECK(loads.begin() == 3);
    CHECK(loads.end() == 6);
    CHECK(LinkLoads(wiring, 7).end() == 8);
    loads.add({4, 0, 5, 0}, 2, 3);
    loads.add({4, 0, 7, 0}, 4, 50);
    loads.add({1, 0, 5, 0}, 50, 5);
    CHECK(loads.occupation({4, 0, 0, 0}) == Approx((2 + 4) / 25e9));
    CHECK(loads.occupation({4, 0, 5, 0}) == Approx((3 + 5) / 25e9));
    CHECK(loads.occupation({3, 0, 0, 0}) == Approx(4 / 75e9));  // what goes up
    CHECK(loads.occupation({0, 0, 3, 0}) == Approx(5 / 75e9));  // what comes down
    CHECK(loads.occupation({0, 0, 1, 0}) == 0);
}

TEST_CASE("a cluster that falls apart is refused by the key that joins it") {
    auto cluster = switched_nodes(2);
    cluster.inter.bandwidth = BytesPerSecond(0);
    CHECK(complaint([&] { Wiring{cluster}; }) ==
          "cluster.link.inter.bandwidth: found 0, so rank 0 of node 0 cannot reach rank 0 of node 1; expected the "
          "bandwidth of one NIC");
    const std::string inside = "cluster.link.intra.bandwidth: found 0, so rank 0 of node 0 cannot reach ";
    const std::string expected = " of node 0; expected the bandwidth of one link inside the node";
    for (const int nodes : {1, 2}) {
        cluster = switched_nodes(nodes);
        cluster.intra.bandwidth = BytesPerSecond(0);
        CHECK(complaint([&] { Wiring{cluster}; }) == inside + "rank 1" + expected);
    }
    cluster = pcie_node(4);
    cluster.fabric = Fabric::nvlink_pairs;
    cluster.intra.pair_bandwidth = BytesPerSecond(100e9);
    cluster.intra.bandwidth = BytesPerSecond(0);
    CHECK(complaint([&] { Wiring{cluster}; }) == inside + "rank 2" + expected);
    cluster.gpus_per_node = 2;
    CHECK(complaint([&] { Wiring{cluster}; }).empty());
    cluster.nodes = 2;
    cluster.inter.bandwidth = BytesPerSecond(25e9);
    CHECK(complaint([&] { Wiring{cluster}; }) == inside + "NIC 0" + expected);
}
