#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "model/base/errors.h"
#include "model/rank_groups.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

using Ranks = std::vector<int>;
using Coordinates = std::array<int, 4>;  // tp, cp, dp, pp

constexpr std::array<std::string_view, 4> axis_names{"tp", "cp", "dp", "pp"};

Parallelism split_of(int tp, int cp, int dp, int pp, const std::string& order) {
    Parallelism p;
    p.tp = tp, p.cp = cp, p.dp = dp, p.pp = pp;
    p.rank_order = order;
    return p;
}

std::vector<std::string> all_orders() {
    std::array<int, 4> axes{0, 1, 2, 3};
    std::vector<std::string> orders;
    do {
        std::string order;
        for (const int axis : axes)
            order += (order.empty() ? "" : "-") +
                     std::string(axis_names[static_cast<std::size_t>(axis)]);
        orders.push_back(order);
    } while (std::next_permutation(axes.begin(), axes.end()));
    return orders;
}

// By definition: count through all coordinates, the innermost name fastest; the n-th is rank n.
std::vector<Coordinates> coordinates_of_ranks(const Parallelism& p) {
    const std::array<int, 4> sizes{p.tp, p.cp, p.dp, p.pp};
    std::array<std::size_t, 4> order{};
    for (std::size_t i = 0; i < 4; ++i)
        order[i] = static_cast<std::size_t>(
            std::find(axis_names.begin(), axis_names.end(), p.rank_order.substr(3 * i, 2)) -
            axis_names.begin());
    std::vector<Coordinates> ranks;
    Coordinates at{};
    for (int n = 0; n < p.tp * p.cp * p.dp * p.pp; ++n) {
        ranks.push_back(at);
        for (const auto axis : order) {
            if (++at[axis] < sizes[axis]) break;
            at[axis] = 0;
        }
    }
    return ranks;
}

// Ranks that agree in every coordinate except those named, in rank order, cut into runs of `run`;
// with `across`, the ranks at the same position of these runs.
std::set<Ranks> defined_groups(const Parallelism& p, std::set<std::size_t> varying, int run,
                               bool across) {
    const auto ranks = coordinates_of_ranks(p);
    std::map<Coordinates, Ranks> pools;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        auto fixed = ranks[r];
        for (const auto axis : varying) fixed[axis] = 0;
        pools[fixed].push_back(static_cast<int>(r));
    }
    std::set<Ranks> groups;
    for (const auto& [fixed, pool] : pools) {
        std::map<std::size_t, Ranks> cut;
        for (std::size_t i = 0; i < pool.size(); ++i)
            cut[across ? i % static_cast<std::size_t>(run) : i / static_cast<std::size_t>(run)]
                .push_back(pool[i]);
        for (const auto& [n, group] : cut) groups.insert(group);
    }
    return groups;
}

// Disjoint groups of one shape, found greedily: the next rank that is in no group begins one.
std::set<Ranks> tiled(const Group& group, int rank_count) {
    std::set<Ranks> groups;
    std::set<int> taken;
    for (int first = 0; first < rank_count; ++first) {
        if (taken.count(first)) continue;
        const auto ranks = members(group, first);
        taken.insert(ranks.begin(), ranks.end());
        groups.insert(ranks);
    }
    return groups;
}

std::set<Ranks> in_blocks(const Group& group, int rank_count) {
    std::set<Ranks> groups;
    for (int first = 0; first < rank_count; ++first)
        if (first % group.block + group.stride < group.block) groups.insert(members(group, first));
    return groups;
}

std::set<Ranks> stage_pairs(const Parallelism& p, bool ends) {
    const auto ranks = coordinates_of_ranks(p);
    std::set<Ranks> pairs;
    for (std::size_t a = 0; a < ranks.size(); ++a)
        for (std::size_t b = 0; b < ranks.size(); ++b) {
            auto next = ranks[a];
            next[3] = ends ? p.pp - 1 : next[3] + 1;
            if (next == ranks[b] && (!ends || ranks[a][3] == 0))
                pairs.insert({static_cast<int>(a), static_cast<int>(b)});
        }
    return pairs;
}

}  // namespace

// tp 2, cp 3, dp 2, pp 2 in the usual order have strides 1, 2, 6, 12. ep 3 takes one cp group; its
// replicas are the two dp ranks.
TEST_CASE("the usual order puts tensor ranks next to each other and stages farthest apart") {
    auto p = split_of(2, 3, 2, 2, "tp-cp-dp-pp");
    p.ep = 3;
    const auto groups = rank_groups(p);
    CHECK(groups.tensor == Group{2, 1});
    CHECK(groups.context == Group{3, 2});
    CHECK(groups.data == Group{2, 6});
    CHECK(groups.data_context == Group{6, 2});
    CHECK(groups.expert == Group{3, 2});
    CHECK(groups.expert_data == Group{2, 6});
    CHECK(groups.shard == Group{6, 2});
    CHECK(groups.shard_replicas == Group{});
    CHECK(groups.pipeline_neighbour == Group{.ranks = 2, .stride = 12, .block = 24});
    CHECK(groups.embedding == Group{.ranks = 2, .stride = 12, .block = 24});
    CHECK(rank_of(p, 1, 2, 1, 1) == 1 + 2 * 2 + 6 + 12);
}

// cp innermost, then pp, dp and tp have strides 1, 2, 4, 12. dp x cp is 3 pairs, 4 ranks apart.
TEST_CASE("an order that parts dp and cp needs the outer pair") {
    auto p = split_of(2, 2, 3, 2, "cp-pp-dp-tp");
    p.ep = 2;
    const auto groups = rank_groups(p);
    CHECK(groups.data_context == Group{2, 1, 3, 4});
    CHECK(members(groups.data_context, 2) == Ranks{2, 3, 6, 7, 10, 11});
    CHECK(groups.expert == Group{2, 1});
    CHECK(groups.expert_data == Group{3, 4});
}

TEST_CASE("groups of every order are what counting through the coordinates gives") {
    int compared = 0;
    for (const auto& order : all_orders())
        for (const auto& [tp, cp, dp, pp] :
             {Coordinates{2, 2, 4, 3}, {1, 2, 3, 2}, {3, 1, 4, 2}, {2, 3, 1, 4}, {2, 2, 2, 1}}) {
            auto p = split_of(tp, cp, dp, pp, order);
            const int count = tp * cp * dp * pp;
            const auto ranks = coordinates_of_ranks(p);
            for (int r = 0; r < count; ++r) {
                const auto& at = ranks[static_cast<std::size_t>(r)];
                REQUIRE(rank_of(p, at[0], at[1], at[2], at[3]) == r);
            }
            INFO(order << " tp " << tp << " cp " << cp << " dp " << dp << " pp " << pp);
            const auto groups = rank_groups(p);
            CHECK(tiled(groups.tensor, count) == defined_groups(p, {0}, tp, false));
            CHECK(tiled(groups.context, count) == defined_groups(p, {1}, cp, false));
            CHECK(tiled(groups.data, count) == defined_groups(p, {2}, dp, false));
            CHECK(tiled(groups.data_context, count) == defined_groups(p, {1, 2}, dp * cp, false));
            if (pp > 1) {
                CHECK(in_blocks(groups.pipeline_neighbour, count) == stage_pairs(p, false));
                CHECK(in_blocks(groups.embedding, count) == stage_pairs(p, true));
            }
            ++compared;
        }
    CHECK(compared == 24 * 5);
}

TEST_CASE(
    "expert and shard groups of every order are runs of their ranks, or refused where a run is no "
    "pattern") {
    int compared = 0, refused = 0;
    for (const auto& order : all_orders())
        for (const auto& [tp, cp, dp, pp] :
             {Coordinates{2, 2, 4, 3}, {3, 2, 6, 2}, {2, 3, 2, 2}, {1, 4, 2, 2}})
            for (int n = 1; n <= tp * cp * dp; ++n)
                for (const bool experts_over_tensor_ranks : {false, true}) {
                    auto p = split_of(tp, cp, dp, pp, order);
                    const std::set<std::size_t> axes = experts_over_tensor_ranks
                                                           ? std::set<std::size_t>{0, 1, 2}
                                                           : std::set<std::size_t>{1, 2};
                    const int pool = experts_over_tensor_ranks ? tp * cp * dp : cp * dp;
                    if (pool % n != 0) continue;
                    p.ep = n;
                    if (!experts_over_tensor_ranks) p.shard = n;
                    const int count = tp * cp * dp * pp;
                    INFO(order << " tp " << tp << " cp " << cp << " dp " << dp << " pp " << pp
                               << " n " << n);
                    RankGroups groups;
                    try {
                        groups = rank_groups(p, !experts_over_tensor_ranks);
                    } catch (const ConfigError&) {
                        // refused only where runs end inside a pattern of the pool, so that not all
                        // of them look alike
                        std::set<Ranks> shifted;
                        for (auto run : defined_groups(p, axes, n, false)) {
                            for (auto r = run.rbegin(); r != run.rend(); ++r) *r -= run.front();
                            shifted.insert(run);
                        }
                        CHECK(shifted.size() > 1);
                        ++refused;
                        continue;
                    }
                    CHECK(tiled(groups.expert, count) == defined_groups(p, axes, n, false));
                    CHECK(tiled(groups.expert_data, count) == defined_groups(p, axes, n, true));
                    if (!experts_over_tensor_ranks) {
                        CHECK(groups.shard == groups.expert);
                        CHECK(groups.shard_replicas == groups.expert_data);
                        CHECK(groups.expert_shard == Group{});
                        CHECK(groups.expert_shard_replicas == groups.expert_data);
                    }
                    ++compared;
                }
    CHECK(compared > 400);
    CHECK(refused > 0);
}

// 16 ranks in two copies of 8. An expert has 16, 8 or 4 replicas (ep 1, 2, 4), of which 8, 4 or 2
// share it, and its two copies are 8 ranks apart. With ep = 8 none share; with ep = 16 there is
// only one. With two tensor ranks as well, ep = 2 has 8 of 16.
TEST_CASE("replicas of an expert share it within a copy of the model") {
    const auto groups = [](int tp, int ep, int shard) {
        auto p = split_of(tp, 1, 16, 1, "tp-cp-dp-pp");
        p.ep = ep;
        p.shard = shard;
        return rank_groups(p, tp == 1);
    };
    const auto shares = [&](int tp, int ep, int shard) {
        const RankGroups g = groups(tp, ep, shard);
        return std::pair{g.expert_shard, g.expert_shard_replicas};
    };
    CHECK(shares(1, 1, 8) == std::pair{Group{8, 1}, Group{2, 8}});
    CHECK(shares(1, 2, 8) == std::pair{Group{4, 2}, Group{2, 8}});
    CHECK(shares(1, 4, 8) == std::pair{Group{2, 4}, Group{2, 8}});
    CHECK(shares(1, 8, 8) == std::pair{Group{}, Group{2, 8}});
    CHECK(shares(1, 16, 8) == std::pair{Group{}, Group{}});
    CHECK(shares(1, 8, 2) == std::pair{Group{}, Group{2, 8}});
    CHECK(shares(1, 4, 0) == std::pair{Group{4, 4}, Group{}});
    CHECK(shares(2, 2, 8) == std::pair{Group{8, 2}, Group{2, 16}});
}

TEST_CASE("a rank order is four names, once each") {
    for (const auto* wrong :
         {"", "tp", "tp-cp-dp", "tp-cp-dp-dp", "tp-cp-dp-pp-ep", "tp-cp-dp-pp-", "-tp-cp-dp-pp",
          "tp cp dp pp", "tp-cp-ep-pp", "TP-CP-DP-PP", "tpcp-dp-pp"}) {
        CHECK(complaint([&] { rank_groups(split_of(2, 1, 2, 1, wrong)); }) ==
              "parallelism.rank_order: found \"" + std::string(wrong) +
                  "\"; expected tp, cp, dp and pp once each, innermost first, for example "
                  "\"tp-cp-dp-pp\"");
    }
}

// cp 3 inside and dp 2 outside of two tensor ranks: experts over pairs of the six ranks would be
// {0, 1}, {2, 6}, {7, 8}.
TEST_CASE("expert ranks that would straddle a gap of the order are refused with the remedy") {
    auto p = split_of(2, 3, 2, 1, "cp-tp-dp-pp");
    p.ep = 2;
    CHECK(complaint([&] { rank_groups(p); }) ==
          "parallelism.ep: groups of 2 ranks would straddle the 3 neighbouring ranks of dp x cp; "
          "expected a divisor or a "
          "multiple of 3, or another rank_order");
    p.ep = 4;
    CHECK(complaint([&] { rank_groups(p); }) == "parallelism.ep: 4 does not divide dp x cp = 6");
    p.ep = 1, p.shard = 4;
    CHECK(complaint([&] { rank_groups(p); }) == "parallelism.shard: 4 does not divide dp x cp = 6");
}

// By definition: count the members on each node and place of every group, from its first node on.
TEST_CASE(
    "groups that lie alike on every node are those whose members take the same places there") {
    int alike = 0, different = 0;
    for (const int node : {4, 6, 8})
        for (int ranks = 1; ranks <= 12; ++ranks)
            for (int stride = 1; stride <= 12; ++stride) {
                const Group group{ranks, stride};
                const int count = ranks * stride * node;  // a whole number of tiles and of nodes
                std::set<std::vector<int>> patterns;      // members on each node, in order
                for (const auto& at : tiled(group, count)) {
                    std::map<int, int> on_node;
                    for (const int rank : at) ++on_node[rank / node];
                    std::vector<int> pattern;
                    for (const auto& [n, members_there] : on_node) pattern.push_back(members_there);
                    patterns.insert(pattern);
                }
                INFO(ranks << " ranks, " << stride << " apart, nodes of " << node);
                if (lies_alike(group, node)) {
                    CHECK(patterns.size() == 1);
                    ++alike;
                }
                if (patterns.size() > 1) {
                    CHECK_FALSE(lies_alike(group, node));
                    ++different;
                }
            }
    CHECK(alike > 50);
    CHECK(different > 50);
    CHECK(lies_alike({.ranks = 2, .stride = 4, .block = 12}, 8));  // three stages of four ranks
    CHECK_FALSE(lies_alike({.ranks = 2, .stride = 6, .block = 18}, 8));
}
