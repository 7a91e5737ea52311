#include "sim/network/ring_path.h"

#include <catch2/catch.hpp>

#include <array>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "model/rank_groups.h"
#include "tests/sim/clusters.h"

using namespace stepcast;

namespace {

constexpr double endless_rate = std::numeric_limits<double>::infinity();
double gb(BytesPerSecond rate) { return rate.si() / 1e9; }
RingPath path_of(const Group& group, const Cluster& cluster) { return ring_path(group, cluster); }

}  // namespace

// In a ring each rank sends to one and receives from one, so only its link to the switch counts.
// All-to-all: 7 x 1/7 of its traffic.
TEST_CASE("a tensor group inside a node gets the switch at full bandwidth and no network") {
    const auto path = path_of({8, 1}, switched_nodes(4));
    CHECK(path.ranks == 8);
    CHECK(path.nodes == 1);
    CHECK(gb(path.ring) == Approx(300));
    CHECK(gb(path.inter) == endless_rate);
    CHECK(gb(path.pair) == Approx(300));
    CHECK(gb(path.inside) == Approx(300));
    CHECK(gb(path.between) == endless_rate);
}

TEST_CASE("a data-parallel group with one member a node has one NIC and no traffic in the node") {
    const auto path = path_of({4, 8}, switched_nodes(4));
    CHECK(path.nodes == 4);
    CHECK(gb(path.ring) == endless_rate);
    CHECK(gb(path.inter) == Approx(25));
    CHECK(gb(path.pair) == Approx(25));
    CHECK(gb(path.between) == Approx(25));
    CHECK(gb(path.inside) == endless_rate);
}

// Eight channels of an eighth each leave over eight NICs: 200. Inside, a hop carries 7/8: 300 x
// 8/7. The neighbour of rank 7 is on rail 0 of the next node: one NIC, relayed by rank 0.
// All-to-all: a member sends 24 of 31 parts to other nodes; each NIC carries what eight members
// send to its rail on three nodes, 24/31: 25 x 31/24 x 24/31.
TEST_CASE("a group of whole nodes uses all their NICs") {
    const auto path = path_of({32, 1}, switched_nodes(4));
    CHECK(path.nodes == 4);
    CHECK(gb(path.ring) == Approx(300 * 8.0 / 7));
    CHECK(gb(path.inter) == Approx(200));
    CHECK(gb(path.pair) == Approx(25));
    CHECK(gb(path.between) == Approx(25));
    // 7 parts go to the node's own ranks and 7 x 3 are relayed by them on their rails: 28/31 over
    // the link of 300
    CHECK(gb(path.inside) == Approx(300 * 7.0 / 28));
}

TEST_CASE("tensor parallelism over two nodes is bound by their NICs") {
    const auto path = path_of({16, 1}, switched_nodes(2));
    CHECK(path.nodes == 2);
    CHECK(gb(path.inter) == Approx(200));
    CHECK(gb(path.ring) == Approx(300 * 8.0 / 7));
}

// Every second rank: members 0, 2, .. of a node, four per group, two groups per node, so each group
// has four NICs.
TEST_CASE("groups that share a node share its NICs by their members") {
    const auto path = path_of({8, 2}, switched_nodes(2));
    CHECK(gb(path.inter) == Approx(100));
    CHECK(gb(path.ring) == Approx(300 * 4.0 / 3));
}

// Stages of four ranks: the link 0 -> 1 is inside node 0, the link 1 -> 2 goes from node 0 to
// node 1.
TEST_CASE("neighbouring stages talk inside a node or over the NICs, by the group looked at") {
    const Group neighbour{.ranks = 2, .stride = 4, .block = 16};
    CHECK(gb(path_of(neighbour, switched_nodes(2)).pair) == Approx(300));
    auto crossing = neighbour;
    crossing.first = 4;
    CHECK(gb(path_of(crossing, switched_nodes(2)).pair) == Approx(25));
    CHECK(path_of(crossing, switched_nodes(2)).nodes == 2);
}

// Four NICs serve two ranks each. One member per node: 25/2; whole nodes: all four NICs. With
// sixteen each rank has two.
TEST_CASE("fewer NICs than ranks are shared, more are taken together") {
    auto cluster = switched_nodes(4);
    cluster.network.nics = 4;
    CHECK(gb(path_of({4, 8}, cluster).inter) == Approx(12.5));
    CHECK(gb(path_of({32, 1}, cluster).inter) == Approx(100));
    cluster.network.nics = 16;
    CHECK(gb(path_of({4, 8}, cluster).inter) == Approx(50));
    CHECK(gb(path_of({32, 1}, cluster).inter) == Approx(400));
}

// Leaves of four nodes with 4 x 25 / 4 = 25 GB/s to the spine. A ring in rank order crosses once
// per leaf: 25. With ranks four nodes apart every hop of the four NICs of a rail crosses: 25 / 4.
// Inside a leaf: 25. All-to-all over 8 nodes: 4 NICs x 4/7 of the traffic share 25 GB/s: unit 25 x
// 7/16, and all of a member's traffic leaves its node.
TEST_CASE("oversubscription counts only between leaves") {
    auto cluster = switched_nodes(8);
    cluster.network.nodes_per_leaf = 4;
    cluster.network.oversubscription = 4;
    CHECK(gb(path_of({8, 8}, cluster).inter) == Approx(25));
    CHECK(gb(path_of({2, 32}, cluster).inter) == Approx(6.25));
    CHECK(gb(path_of({4, 8}, cluster).inter) == Approx(25));
    CHECK(gb(path_of({8, 8}, cluster).between) == Approx(25 * 7.0 / 16));
    cluster.network.oversubscription = 1;
    CHECK(gb(path_of({2, 32}, cluster).inter) == Approx(25));
}

// Pairs 0-1 and 2-3 at 100, one PCIe switch per pair at 24. 0 -> 2 and 1 -> 3 share the uplink: 12.
// A ring over four takes pair, uplink, pair, uplink: 24.
TEST_CASE("the two of an NVLink pair are fast, others share the host bridge") {
    auto cluster = pcie_node(4);
    cluster.fabric = Fabric::nvlink_pairs;
    cluster.intra.pair_bandwidth = BytesPerSecond(100e9);
    CHECK(gb(path_of({2, 1}, cluster).ring) == Approx(100));
    CHECK(gb(path_of({2, 2}, cluster).ring) == Approx(12));
    CHECK(gb(path_of({4, 1}, cluster).ring) == Approx(24));
}

// 0 -> 1 below one switch: 24. 0 -> 2 and 1 -> 3 share an uplink: 12. 0 -> 4 .. 3 -> 7 share the
// link between the sockets: 6, or with 96 GB/s there only the uplinks: 12. One ring over all ranks
// crosses each link once: 24.
TEST_CASE("concurrent traffic of a PCIe tree shares the uplinks of its switches") {
    auto cluster = pcie_node(8);
    CHECK(gb(path_of({2, 1}, cluster).ring) == Approx(24));
    CHECK(gb(path_of({2, 2}, cluster).ring) == Approx(12));
    CHECK(gb(path_of({2, 4}, cluster).ring) == Approx(6));
    CHECK(gb(path_of({8, 1}, cluster).ring) == Approx(24));
    cluster.intra.socket_bandwidth = BytesPerSecond(96e9);
    CHECK(gb(path_of({2, 4}, cluster).ring) == Approx(12));
}

// tp 8, dp 2048.
TEST_CASE("a group of 2048 nodes gets what one of four does") {
    const auto large = path_of({2048, 8}, switched_nodes(2048)),
               small = path_of({4, 8}, switched_nodes(4));
    CHECK(large.nodes == 2048);
    CHECK(large.inter == small.inter);
    CHECK(large.pair == small.pair);
    CHECK(gb(path_of({16384, 1}, switched_nodes(2048)).inter) == Approx(200));
}

TEST_CASE("paths of one cluster asked for together are those asked for alone") {
    const auto cluster = switched_nodes(4);
    RingPaths paths(cluster);
    const auto& first = paths.of({8, 1});
    for (const auto& group :
         {Group{4, 8}, Group{32, 1}, Group{8, 1}, Group{.ranks = 2, .stride = 4, .first = 4}})
        CHECK(paths.of(group) == path_of(group, cluster));
    CHECK(first == path_of({8, 1}, cluster));
}

TEST_CASE("a rank alone has no traffic") {
    const auto path = path_of(Group{}, switched_nodes(2));
    CHECK(path.ranks == 1);
    for (const auto rate : {path.ring, path.inter, path.pair, path.between, path.inside})
        CHECK(gb(rate) == endless_rate);
}

TEST_CASE("a group that does not fit is our bug") {
    CHECK_THROWS_AS(path_of({16, 1}, switched_nodes(1)), std::logic_error);
    CHECK_THROWS_AS(path_of({2, 4, 2, 4}, switched_nodes(4)), std::logic_error);
    CHECK_THROWS_AS(path_of({.ranks = 0}, switched_nodes(4)), std::logic_error);
    CHECK_THROWS_AS(path_of({.ranks = 2, .stride = 0}, switched_nodes(4)), std::logic_error);
    CHECK_THROWS_AS(path_of({2, 1, 0, 8}, switched_nodes(4)), std::logic_error);
    CHECK_THROWS_AS(path_of({.ranks = 2, .stride = 1, .first = -1}, switched_nodes(4)),
                    std::logic_error);
    CHECK_THROWS_AS(path_of({.ranks = 2, .stride = 8, .first = 24, .block = 32}, switched_nodes(4)),
                    std::logic_error);
}

namespace {

// Counts the definitions of RingPath flow by flow on the whole graph, over every group and every
// link.
class ReferencePath {
public:
    ReferencePath(const Group& group, const Cluster& cluster)
        : g_(group), c_(cluster), t_(topology_of(cluster, Extent::whole)), routes_(t_) {
        std::set<int> taken;
        for (int first = 0; first < rank_count(cluster); ++first) {
            const auto ranks = members(group, first);
            if (ranks.back() >= rank_count(cluster)) break;
            const bool fits =
                group.block == 0 || first % group.block + ranks.back() - first < group.block;
            if (!fits || (group.block == 0 && taken.count(first))) continue;
            taken.insert(ranks.begin(), ranks.end());
            groups_.push_back(ranks);
        }
    }

    struct Traffic {
        int from, to;
        double weight;
    };
    using Flows = std::vector<Traffic>;

    [[nodiscard]] std::map<int, std::vector<int>> by_node(const std::vector<int>& ranks) const {
        std::map<int, std::vector<int>> nodes;
        for (const int rank : ranks) nodes[rank / c_.gpus_per_node].push_back(rank);
        return nodes;
    }
    [[nodiscard]] Flows ring(const std::vector<int>& ranks, bool inside) const {
        const auto nodes = by_node(ranks);
        std::size_t channels = 0;
        for (const auto& [node, there] : nodes) channels = std::max(channels, there.size());
        Flows flows;
        for (auto at = nodes.begin(); at != nodes.end(); ++at) {
            const auto& there = at->second;
            const auto m = there.size();
            for (std::size_t i = 0; inside && m > 1 && i < m; ++i)
                flows.push_back({there[i], there[(i + 1) % m],
                                 nodes.size() == 1
                                     ? 1.0
                                     : static_cast<double>(m - 1) / static_cast<double>(m)});
            const auto& next =
                std::next(at) == nodes.end() ? nodes.begin()->second : std::next(at)->second;
            for (std::size_t c = 0; !inside && nodes.size() > 1 && c < channels; ++c)
                flows.push_back({there[c * m / channels], next[c * next.size() / channels],
                                 1.0 / static_cast<double>(channels)});
        }
        return flows;
    }
    [[nodiscard]] Flows neighbours(const std::vector<int>& ranks) const {
        Flows flows;
        for (std::size_t i = 0; i + (g_.block > 0) < ranks.size() && ranks.size() > 1; ++i)
            flows.push_back({ranks[i], ranks[(i + 1) % ranks.size()], 1});
        return flows;
    }
    [[nodiscard]] Flows exchange(const std::vector<int>& ranks, int kind) const {
        Flows flows;
        for (const int a : ranks)
            for (const int b : ranks) {
                const bool near = a / c_.gpus_per_node == b / c_.gpus_per_node;
                if (a != b && (kind == 0 || (kind == 1) == near))
                    flows.push_back({a, b, 1.0 / (g_.size() - 1)});
            }
        return flows;
    }

    // `all`: the flows of a group that make the load. `looked_at`: the flows of the first group
    // whose slowest link gives the rate.
    template <class All, class LookedAt>
    double rate(All all, LookedAt looked_at) {
        std::vector<double> load(t_.links.size());
        for (const auto& ranks : groups_)
            for (const auto& flow : all(ranks))
                for (const int link : route(flow))
                    load[static_cast<std::size_t>(link)] += flow.weight;
        double worst = 0;
        for (const auto& flow : looked_at(members(g_, g_.first)))
            for (const int link : route(flow))
                if (in_focus(link))
                    worst = std::max(worst,
                                     load[static_cast<std::size_t>(link)] /
                                         t_.links[static_cast<std::size_t>(link)].bandwidth.si());
        return 1 / worst;
    }
    RingPath path() {
        const auto whole_ring = [&](const auto& ranks) {
            auto flows = ring(ranks, true);
            for (const auto& flow : ring(ranks, false)) flows.push_back(flow);
            return flows;
        };
        const auto hops = [&](const auto& ranks) { return neighbours(ranks); };
        const auto exchanged = [&](int kind) {
            return [this, kind](const auto& ranks) { return exchange(ranks, kind); };
        };
        const auto nodes = by_node(members(g_, g_.first));
        RingPath path;
        path.ranks = g_.size();
        path.nodes = static_cast<int>(nodes.size());
        int per_node = 0;
        for (const auto& [node, there] : nodes)
            per_node = std::max(per_node, static_cast<int>(there.size()));
        path.ring = BytesPerSecond(rate(whole_ring, [&](const auto& r) { return ring(r, true); }));
        path.inter =
            BytesPerSecond(rate(whole_ring, [&](const auto& r) { return ring(r, false); }));
        path.pair = BytesPerSecond(rate(hops, hops));
        const double near = rate(exchanged(0), exchanged(1)),
                     far = rate(exchanged(0), exchanged(2));
        const double others = std::max(1, g_.size() - 1);
        path.inside =
            BytesPerSecond(near == endless_rate ? endless_rate : near * (per_node - 1) / others);
        path.between = BytesPerSecond(far == endless_rate ? endless_rate
                                                          : far * (path.ranks - per_node) / others);
        return path;
    }

private:
    std::vector<int> route(const Traffic& flow) {
        const int g = c_.gpus_per_node;
        return routes_.between(flow.from / g, flow.from % g, flow.to / g, flow.to % g);
    }
    // Whether the link lies at the first group's leaf or at a node below it.
    [[nodiscard]] bool in_focus(int link) const {
        const int leaf = g_.first / c_.gpus_per_node / c_.network.nodes_per_leaf,
                  nodes = t_.nodes * t_.links_per_node;
        return link < nodes ? link / t_.links_per_node / c_.network.nodes_per_leaf == leaf
                            : (link - nodes) / t_.links_per_leaf_group == leaf;
    }

    Group g_;
    Cluster c_;
    Topology t_;
    Routes routes_;
    std::vector<std::vector<int>> groups_;
};

Cluster random_cluster(std::mt19937& random) {
    const auto pick = [&](std::initializer_list<int> of) {
        return of.begin()[random() % of.size()];
    };
    Cluster c;
    c.nodes = pick({1, 2, 3, 4, 6, 8});
    c.gpus_per_node = pick({1, 2, 4, 6, 8});
    c.fabric = std::array{Fabric::nvswitch, Fabric::nvlink_pairs, Fabric::pcie}[random() % 3];
    c.network.nics = pick({0, 1, 2, 3, 4, 8, 16});
    c.network.rails = pick({0, 1}) == 1;
    c.network.nodes_per_leaf = pick({1, 2, 3, 4, 32});
    c.network.oversubscription = pick({1, 2, 5});
    c.intra.bandwidth = BytesPerSecond(pick({20, 100, 300}) * 1e9);
    c.intra.pair_bandwidth = BytesPerSecond(200e9);
    c.intra.socket_bandwidth = BytesPerSecond(pick({0, 30}) * 1e9);
    c.inter.bandwidth = BytesPerSecond(pick({5, 25, 50}) * 1e9);
    return c;
}

Group random_group(std::mt19937& random, int ranks) {
    const auto below = [&](int n) {
        return 1 + static_cast<int>(random() % static_cast<unsigned>(std::max(1, n)));
    };
    Group g;
    g.stride = below(ranks / 2);
    g.ranks = below(ranks / g.stride);
    if (const int left = ranks / (g.stride * g.ranks); left > 1 && random() % 2 == 0) {
        g.outer_stride = g.stride * g.ranks * below(left / 2);
        g.outer_ranks = below(ranks / g.outer_stride);
    }
    if (g.size() == 2 && random() % 2 == 0)
        g = {.ranks = 2, .stride = g.stride, .block = g.stride * below(3) + g.stride};
    return g;
}

}  // namespace

TEST_CASE("paths counted on the representative part are those counted on the whole graph") {
    std::mt19937 random(7);
    int crossing = 0;
    for (int trial = 0; trial < 400; ++trial) {
        const auto cluster = random_cluster(random);
        const auto group = random_group(random, rank_count(cluster));
        if (group.block > rank_count(cluster)) continue;
        INFO(cluster.nodes << " nodes of " << cluster.gpus_per_node << ", fabric "
                           << static_cast<int>(cluster.fabric) << ", nics " << cluster.network.nics
                           << ", rails " << cluster.network.rails << ", leaf "
                           << cluster.network.nodes_per_leaf << ": " << group.ranks << " by "
                           << group.stride << ", " << group.outer_ranks << " by "
                           << group.outer_stride << ", block " << group.block);
        const auto expected = ReferencePath(group, cluster).path(), found = path_of(group, cluster);
        CHECK(found.nodes == expected.nodes);
        CHECK(gb(found.ring) == Approx(gb(expected.ring)));
        CHECK(gb(found.inter) == Approx(gb(expected.inter)));
        CHECK(gb(found.pair) == Approx(gb(expected.pair)));
        CHECK(gb(found.between) == Approx(gb(expected.between)));
        CHECK(gb(found.inside) == Approx(gb(expected.inside)));
        if (found.nodes > cluster.network.nodes_per_leaf) ++crossing;
    }
    CHECK(crossing > 30);
}
