#include <catch2/catch.hpp>

#include "sim/breakdown.h"
#include "sim/engine/contention.h"
#include "sim/explain/critical_path.h"
#include "tests/literals.h"
#include "tests/random_graphs.h"
#include "tests/sim/clusters.h"
#include "tests/simulated.h"

using namespace stepcast;
using namespace stepcast::graphs;
using namespace stepcast::literals;

namespace {

struct Simulated {
    Costs costs;
    Timeline timeline;
    std::vector<PathSegment> path;
    Simulated(const TaskGraph& graph, Costs c, const Interference& contention = {})
        : costs(std::move(c)) {
        run_with_contention(graph, costs, contention, timeline, Record::waits);
        path = critical_path(graph, costs, timeline);
    }
};

void check_path_adds_up(const TaskGraph& graph, const Costs& costs,
                        const Interference& contention) {
    const Simulated s(graph, costs, contention);
    Seconds sum;
    for (const PathSegment& segment : s.path) {
        REQUIRE(segment.time >= 0_s);
        sum += segment.time;
    }
    REQUIRE(std::abs((sum - s.timeline.end).si()) <= 1e-12 * s.timeline.end.si());
}

}  // namespace

// Backward [0, 1] [1, 2] on rank 0 (tasks 0, 1), [0, 4] [4, 5] on rank 1 (2, 3); buckets 4 [4, 7]
// and 5 [7, 8]; optimizers 6, 7 [8, 9]. The first bucket waits for rank 1's first backward.
TEST_CASE("the critical path goes through the straggler, not through the rank that ends last") {
    const TaskGraph graph = two_ranks_all_reduce();
    const Simulated s(graph, free_issue({1_s, 1_s, 4_s, 1_s, 3_s, 1_s, 1_s, 1_s}));
    CHECK(s.path == std::vector<PathSegment>{
                        {2, false, 4_s}, {4, false, 3_s}, {5, false, 1_s}, {6, false, 1_s}});
    const std::vector<WaitedFor>& waited_for = s.timeline.waited_for;
    CHECK(waited_for[4] == WaitedFor{WaitedFor::Kind::predecessor, 2});
    CHECK(waited_for[5] == WaitedFor{WaitedFor::Kind::lane, 4});
    CHECK(waited_for[0] == WaitedFor{});
}

// Issues end at 3, 6, 9, and kernels of 1 s wait for them: the path is three issues and the last
// kernel.
TEST_CASE("a host that falls behind is the critical path") {
    TaskGraph graph;
    for (int i = 0; i < 3; ++i) graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    const Simulated s(graph, {std::vector<Seconds>(3, 1_s), std::vector<Seconds>(3, 3_s)});
    CHECK(s.path == std::vector<PathSegment>{
                        {0, true, 3_s}, {1, true, 3_s}, {2, true, 3_s}, {2, false, 1_s}});
}

// Host work [0, 4], issue [4, 5], gemm [5, 7], pass [7, 8], synchronisation [8, 10], issue [10,
// 11], sum [11, 14], pass.
TEST_CASE("a synchronisation joins device and host on one path") {
    const TaskGraph graph = host_calls(false);
    const Simulated s(graph, {{4_s, 2_s, 1_s, 2_s, 4_s, 3_s, 1_s, 1_s},
                              {0_s, 1_s, 1_s, 0_s, 0_s, 1_s, 1_s, 1_s}});
    CHECK(s.path == std::vector<PathSegment>{{0, false, 4_s},
                                             {1, true, 1_s},
                                             {1, false, 2_s},
                                             {2, false, 1_s},
                                             {3, false, 2_s},
                                             {5, true, 1_s},
                                             {5, false, 3_s},
                                             {6, false, 1_s}});
}

TEST_CASE("the critical path adds up to the step on every named and many random graphs") {
    for (const NamedGraph& named : named_graphs()) {
        CAPTURE(named.name);
        for (const bool with_issue : {false, true})
            check_path_adds_up(named.graph, random_costs(named.graph, 5, with_issue), {});
        check_path_adds_up(named.graph, random_costs(named.graph, 5, true), {0.2, 0.5});
    }
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        CAPTURE(seed);
        const TaskGraph graph = random_graph(seed, seed % 2 == 0);
        check_path_adds_up(graph, random_costs(graph, seed, seed % 3 == 0),
                           seed % 5 == 0 ? Interference{0.3, 0.1} : Interference{});
    }
}

// Nodes of eight, two nodes per leaf: ranks 0..7 share a node, ranks 0..15 a leaf, and others meet
// beyond it.
TEST_CASE("the link of an exchange is the highest level that it crosses") {
    Cluster c = switched_nodes(8);
    c.network.nodes_per_leaf = 2;
    TaskGraph graph(64);
    const auto exchange = [&](const Group& group) {
        const Place place(0, Lane::collective);
        return graph.add({graph.name_id("sum"), Phase::forward, graph.add_op(AllReduce{Bytes(8)}),
                          1, graph.add_group(group)},
                         {&place, 1}, {});
    };
    CHECK(link_of(graph, exchange({.ranks = 8, .stride = 1}), c) == LinkLevel::node);
    CHECK(link_of(graph, exchange({.ranks = 2, .stride = 8}), c) == LinkLevel::leaf);
    CHECK(link_of(graph, exchange({.ranks = 8, .stride = 8}), c) == LinkLevel::spine);
    const TaskId listed = graph.add("send", Phase::forward, SendRecv{Bytes(8)},
                                    {Place(7, Lane::send_up), Place(8, Lane::receive_up)}, {});
    CHECK(link_of(graph, listed, c) == LinkLevel::leaf);
    CHECK(link_of(graph, graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {}), c) ==
          LinkLevel::none);
}

// Rank 0: gemm [0, 1]; its activations arrive at rank 1 at 2, whose gemm ends at 7; then both sum
// norms [7, 8]. Rank 0 waits in [2, 7] for work that went through the send, which is a bubble.
// Without the send rank 1 would be a straggler.
TEST_CASE("a rank that waits in a collective for a later stage waits out a bubble") {
    TaskGraph graph(2);
    const TaskId first = graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    const TaskId sent = graph.add("send", Phase::forward, SendRecv{Bytes(8)},
                                  {Place(0, Lane::send_up), Place(1, Lane::receive_up)}, {first});
    const TaskId second = graph.add("gemm", Phase::backward, small_gemm(), {compute(1)}, {sent});
    graph.add("norm", Phase::optimizer, AllReduce{Bytes(8)}, {collective(0), collective(1)},
              {first, second});
    const Simulated s(graph, free_issue({1_s, 1_s, 5_s, 1_s}));
    CHECK(breakdown(graph, s.costs, s.timeline, 0) == Breakdown{1_s, 0_s, 2_s, 5_s, 0_s, 0_s});
    CHECK(breakdown(graph, s.costs, s.timeline, 1) == Breakdown{5_s, 0_s, 2_s, 1_s, 0_s, 0_s});
}
