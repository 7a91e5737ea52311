#include <functional>

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/experiment.h"
#include "model/input/check_cluster.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

std::string told(const std::function<void(Cluster&)>& change) {
    Cluster c;
    c.nodes = 4;
    c.gpus_per_node = 8;
    c.intra.bandwidth = BytesPerSecond(300e9);
    c.inter.bandwidth = BytesPerSecond(25e9);
    change(c);
    return complaint([&] { check_cluster(c); });
}

const std::string device =
    "[gpu]\nname = \"X100\"\nmemory = \"80 GiB\"\nmemory_bandwidth = \"2 TB/s\"\n[gpu.peak]\nfp16 "
    "= \"300 TFLOP/s\"\n";

std::string told_of_file(const std::string& text) {
    const TestFolder folder;
    return complaint([&] { read_cluster(folder.write("c.toml", text + device)); }, folder.path());
}

}  // namespace

TEST_CASE("ranks and nodes without a link between them are refused") {
    CHECK(told([](Cluster&) {}).empty());
    CHECK(told([](Cluster& c) { c.inter.bandwidth = {}; }) ==
          "cluster.link.inter.bandwidth: missing; there are 4 nodes");
    CHECK(told([](Cluster& c) { c.inter.bandwidth = {}, c.nodes = 1; }).empty());
    CHECK(told([](Cluster& c) { c.intra.bandwidth = {}; }) ==
          "cluster.link.intra.bandwidth: missing; a node has 8 ranks");
    CHECK(told([](Cluster& c) { c.intra.bandwidth = {}, c.gpus_per_node = 1; }).empty());
}

TEST_CASE("pairs come out even, have a link and a host bridge beyond it") {
    const auto pairs = [](Cluster& c) {
        c.fabric = Fabric::nvlink_pairs;
        c.intra.pair_bandwidth = BytesPerSecond(200e9);
    };
    CHECK(told(pairs).empty());
    CHECK(told([&](Cluster& c) { pairs(c), c.gpus_per_node = 5; }) ==
          "cluster.gpus_per_node: 5 ranks cannot be paired, but cluster.fabric is nvlink-pairs; "
          "expected an even number");
    CHECK(told([&](Cluster& c) { pairs(c), c.intra.pair_bandwidth = {}; }) ==
          "cluster.link.intra.pair_bandwidth: missing; cluster.fabric is nvlink-pairs");
    CHECK(told([&](Cluster& c) { pairs(c), c.intra.bandwidth = {}; }) ==
          "cluster.link.intra.bandwidth: missing; expected the bandwidth of the host bridge, which "
          "joins the pairs");
    CHECK(told([&](Cluster& c) { pairs(c), c.intra.bandwidth = {}, c.gpus_per_node = 2; }) ==
          "cluster.link.intra.bandwidth: missing; expected the bandwidth of the host bridge, which "
          "leads to the NICs");
    CHECK(told([&](Cluster& c) {
              pairs(c), c.intra.bandwidth = {}, c.gpus_per_node = 2, c.nodes = 1;
          }).empty());
}

// Eight ranks have 28 pairs; with links in two halves only, the host must join these.
TEST_CASE("a mesh has a number of links for each pair, and a way to every rank") {
    const auto mesh = [](Cluster& c) {
        c.fabric = Fabric::nvlink_mesh;
        c.intra.mesh.assign(28, 1);
    };
    CHECK(told(mesh).empty());
    // the first four of the eight
    CHECK(told([&](Cluster& c) { mesh(c), c.gpus_per_node = 4; }).empty());
    CHECK(told([&](Cluster& c) { mesh(c), c.intra.mesh.clear(); }) ==
          "cluster.link.intra.mesh: 0 numbers, but cluster.fabric is nvlink-mesh and the 8 ranks "
          "of a node have 28 pairs; expected the number of "
          "links of each pair: of ranks 0 and 1, 0 and 2, .., 1 and 2, ..");
    CHECK(told([&](Cluster& c) {
              mesh(c), c.intra.mesh.resize(27);
          }).starts_with("cluster.link.intra.mesh: 27 numbers"));
    CHECK(told([&](Cluster& c) {
              mesh(c), c.intra.mesh.resize(6);
          }).starts_with("cluster.link.intra.mesh: 6 numbers"));
    CHECK(told([&](Cluster& c) { mesh(c), c.intra.mesh[3] = -1; }) ==
          "cluster.link.intra.mesh: -1 links between two ranks; expected 0 to 1000");
    const auto halves = [&](Cluster& c) {
        mesh(c);
        std::size_t at = 0;
        for (int a = 0; a < 8; ++a)
            for (int b = a + 1; b < 8; ++b) c.intra.mesh[at++] = a / 4 == b / 4 ? 1 : 0;
    };
    CHECK_THAT(told(halves),
               Catch::Matchers::Contains(
                   "cluster.link.intra.mesh: no links lead from rank 0 to all others"));
    CHECK(told([&](Cluster& c) {
              halves(c), c.intra.host_bandwidth = BytesPerSecond(1e10);
          }).empty());
    CHECK(told([&](Cluster& c) { halves(c), c.gpus_per_node = 4; }).empty());
}

// 4 nodes below leaves of 3: the second leaf has one node.
TEST_CASE("leaves below an oversubscribed spine are full") {
    CHECK(told([](Cluster& c) { c.network.nodes_per_leaf = 3; }).empty());
    CHECK(told([](Cluster& c) { c.network.nodes_per_leaf = 3, c.network.oversubscription = 2; }) ==
          "cluster.nodes: 4 nodes do not divide over leaves of cluster.network.nodes_per_leaf = 3 "
          "below a spine "
          "oversubscribed 2 times; expected a multiple, or no more than 3");
    CHECK(told([](Cluster& c) {
              c.network.nodes_per_leaf = 2, c.network.oversubscription = 2;
          }).empty());
}

TEST_CASE("a cluster file is refused at the key that is wrong or that asks for more") {
    CHECK(told_of_file("nodes = 2\ngpus_per_node = 1\n") ==
          "c.toml:1:9: link.inter.bandwidth: missing; there are 2 nodes");
    CHECK(told_of_file("nodes = 2\ngpus_per_node = 1\nlink.inter.bandwidth = \"0 GB/s\"\n") ==
          "c.toml:3:24: link.inter.bandwidth: missing; there are 2 nodes");
    CHECK(told_of_file("nodes = 1\ngpus_per_node = 8\n") ==
          "c.toml:2:17: link.intra.bandwidth: missing; a node has 8 ranks");
    CHECK(told_of_file("gpus_per_node = 5\nfabric = \"nvlink-pairs\"\n") ==
          "c.toml:1:17: gpus_per_node: 5 ranks cannot be paired, but cluster.fabric is "
          "nvlink-pairs; expected an even "
          "number");
    CHECK(told_of_file(
              "nodes = 40\nlink.inter.bandwidth = \"25 GB/s\"\nnetwork.oversubscription = 2\n") ==
          "c.toml:1:9: nodes: 40 nodes do not divide over leaves of cluster.network.nodes_per_leaf "
          "= 32 below a spine "
          "oversubscribed 2 times; expected a multiple, or no more than 32");
    CHECK(told_of_file("nodes = 40\nlink.inter.bandwidth = \"25 GB/s\"\n").empty());
}

TEST_CASE(
    "a limit of power leaves something beyond what is drawn idle, and kernels have names of their "
    "own") {
    CHECK(told([](Cluster& c) { c.power.limit = 100, c.power.idle = 100; }) ==
          "cluster.power.limit_w: 100 W, but idle it draws 100 W (cluster.power.idle_w); expected "
          "more, or 0 where no limit is known");
    CHECK(told([](Cluster& c) { c.power.limit = 101, c.power.idle = 100; }).empty());
    CHECK(told([](Cluster& c) { c.power.limit = 0, c.power.idle = 100; }).empty());
    CHECK(told([](Cluster& c) {
              c.kernel.expert_kernels = {{.name = "a"}, {.name = "b"}, {.name = "a"}};
          }) ==
          "cluster.kernel.expert_kernels: rows 1 and 3 are both \"a\"; expected each kernel once");
    CHECK(told([](Cluster& c) {
              c.kernel.attention_kernels = {{.name = "a"}},
              c.kernel.expert_kernels = {{.name = "a"}};
          }).empty());
}

// 32 ranks need 32 rates between 0.01 and 100. Links start at 1 kB/s. 1024 x 1024 ranks are
// allowed, one node more is not.
TEST_CASE("rates and sizes at their bounds") {
    CHECK(told([](Cluster& c) { c.gpu.rank_rates.assign(32, 0.011); }).empty());
    CHECK(told([](Cluster& c) { c.gpu.rank_rates.assign(31, 1); }) ==
          "cluster.gpu.rank_rates: 31 rates, but cluster has 32 ranks; expected one each, or none");
    CHECK(told([](Cluster& c) { c.gpu.rank_rates.assign(32, 0.01); }) ==
          "cluster.gpu.rank_rates: 0.01 is out of range; expected 0.01 to 100");
    CHECK(told([](Cluster& c) { c.gpu.rank_rates.assign(32, 100); }) ==
          "cluster.gpu.rank_rates: 100 is out of range; expected 0.01 to 100");
    CHECK(told([](Cluster& c) { c.gpu.rank_rates.assign(32, 99); }).empty());
    CHECK(told([](Cluster& c) { c.intra.bandwidth = BytesPerSecond(1e3); }).empty());
    CHECK(told([](Cluster& c) { c.intra.bandwidth = BytesPerSecond(999); }) ==
          "cluster.link.intra.bandwidth: 999 B/s is no link; expected at least 1 kB/s, or 0 for "
          "none");
    CHECK(told([](Cluster& c) { c.inter.bandwidth = BytesPerSecond(999); }) ==
          "cluster.link.inter.bandwidth: 999 B/s is no link; expected at least 1 kB/s, or 0 for "
          "none");
    CHECK(told([](Cluster& c) {
              c.nodes = 6, c.network.nodes_per_leaf = 3, c.network.oversubscription = 2;
          }).empty());
    CHECK(told([](Cluster& c) {
              c.nodes = 4, c.network.nodes_per_leaf = 3, c.network.oversubscription = 1;
          }).empty());
    CHECK(told([](Cluster& c) {
              c.fabric = Fabric::nvlink_pairs, c.gpus_per_node = 1, c.intra.bandwidth = {};
          }).empty());
}
