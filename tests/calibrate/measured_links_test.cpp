#include "calibrate/measured_links.h"

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/base/errors.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

Cluster nodes_of_h100(int nodes) {
    Cluster cluster = read_cluster("dgx-h100");
    cluster.nodes = nodes;
    return cluster;
}
double slower(double gigabytes, const Cluster& cluster) {
    const auto links = measured_links(BytesPerSecond(gigabytes * 1e9), cluster);
    REQUIRE(links.size() == 1);
    CHECK(links.front().between_nodes == (cluster.nodes > 1));
    return links.front().slower;
}

}  // namespace

TEST_CASE("a link's figure: half the bandwidth takes twice the time") {
    for (const int nodes : {1, 2}) {
        const Cluster cluster = nodes_of_h100(nodes);
        CHECK(slower(150, cluster) / slower(300, cluster) == Approx(2));
    }
}

// An all-reduce of 1 GiB over 8 ranks at 100 GB/s of algorithm bandwidth, 175 on the bus (factor
// 2 x 7 / 8), takes 2^30 / 100e9 s = 10737.4 us, which nccl-tests prints.
TEST_CASE("a link's figure and the line that nccl-tests prints of it are the same") {
    const TestFolder folder;
    const std::string path =
        folder.write("links.txt",
                     "# size count type redop root time algbw busbw #wrong time algbw busbw "
                     "#wrong\n"
                     "1073741824 268435456 float sum -1 10737.4 100 175 0 10737.4 100 175 0\n"
                     "1048576 262144 float sum -1 99999 0.1 0.2 0 99999 0.1 0.2 0\n");
    const Cluster cluster = nodes_of_h100(1);
    const auto links = measured_links(path, cluster);
    REQUIRE(links.size() == 1);  // and nothing of the small message
    CHECK(links.front().slower == Approx(slower(175, cluster)).epsilon(1e-5));
}

TEST_CASE("a link of one GPU, or of small messages alone, is refused") {
    Cluster one = nodes_of_h100(1);
    one.gpus_per_node = 1;
    CHECK_THROWS_AS(measured_links(BytesPerSecond(1e11), one), ConfigError);
    const TestFolder folder;
    const std::string path =
        folder.write("links.txt",
                     "# size count type redop root time algbw busbw #wrong time algbw busbw "
                     "#wrong\n"
                     "1048576 262144 float sum -1 30 35 61 0 30 35 61 0\n");
    CHECK_THROWS_WITH(measured_links(path, nodes_of_h100(1)),
                      Catch::Contains("no message of 64 MB or more"));
}
