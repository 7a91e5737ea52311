#include <array>

#include <catch2/catch.hpp>

#include "sim/breakdown.h"
#include "sim/engine/contention.h"
#include "tests/literals.h"
#include "tests/random_graphs.h"
#include "tests/simulated.h"

using namespace stepcast;
using namespace stepcast::graphs;
using namespace stepcast::literals;

namespace {

Breakdown breakdown_of(const TaskGraph& graph, const Costs& costs, int rank) {
    Timeline timeline;
    run_in_order(graph, costs, timeline, Record::waits);
    return breakdown(graph, costs, timeline, rank);
}

void check_breakdown_adds_up(const TaskGraph& graph, const Costs& costs,
                             const Interference& contention) {
    Timeline timeline;
    run_with_contention(graph, costs, contention, timeline, Record::waits);
    for (int rank = 0; rank < graph.rank_count(); ++rank) {
        const Breakdown b = breakdown(graph, costs, timeline, rank);
        for (const Seconds part : std::array{b.compute, b.memory, b.exposed_communication, b.bubble,
                                             b.imbalance, b.host})
            REQUIRE(part >= 0_s);
        REQUIRE(std::abs((total(b) - timeline.end).si()) <= 1e-12 * timeline.end.si());
    }
}

}  // namespace

// Backward [0, 1] [1, 2] on rank 0, [0, 4] [4, 5] on rank 1; all-reduces [4, 7] [7, 8]; optimizer
// passes [8, 9]. Rank 0: compute 2, waits 2 for rank 1, transfer 4, memory 1. Rank 1: compute 5,
// transfer 4, of which 1 is hidden by compute.
TEST_CASE("waiting for a straggler is imbalance, hidden transfer is compute") {
    const TaskGraph graph = two_ranks_all_reduce();
    const Costs costs = free_issue({1_s, 1_s, 4_s, 1_s, 3_s, 1_s, 1_s, 1_s});
    CHECK(breakdown_of(graph, costs, 0) == Breakdown{2_s, 1_s, 4_s, 0_s, 2_s, 0_s});
    CHECK(breakdown_of(graph, costs, 1) == Breakdown{5_s, 1_s, 3_s, 0_s, 0_s, 0_s});
}

// Two stages, two micro-batches, f = 1, b = 2, sends 1. Stage 0: F0 [0,1] F1 [1,2]; sends [1,2]
// [2,3]. Stage 1: F0 [2,3] B0 [3,5] F1 [5,6] B1 [6,8]; sends back [5,6] [8,9]; stage 0: B0 [6,8],
// B1 [9,11]. Stage 0: compute 2 + 4; exposed sends [2,3] [5,6] [8,9] = 3; idle [3,5] before a
// receive = bubble 2. Stage 1: compute 6; sends [1,2] and [8,9] exposed = 2; idle [0,1] before a
// receive and [9,11] at the end = bubble 3.
TEST_CASE("waiting for a stage is bubble") {
    const TaskGraph graph = pipeline({2, 2});
    Costs costs;
    for (TaskId t = 0; t < graph.size(); ++t) {
        const bool sends = std::holds_alternative<SendRecv>(graph.op(t));
        costs.duration.push_back(sends || graph.phase(t) == Phase::forward ? 1_s : 2_s);
        costs.issue.push_back(0_s);
    }
    CHECK(breakdown_of(graph, costs, 0) == Breakdown{6_s, 0_s, 3_s, 2_s, 0_s, 0_s});
    CHECK(breakdown_of(graph, costs, 1) == Breakdown{6_s, 0_s, 2_s, 3_s, 0_s, 0_s});
}

// a [0,1] on rank 0, b1 [1,5] on rank 1, c after b0 [1,3] and b1: [5,6]. Rank 0 idles in [3,5]
// because it waits for rank 1 without a transfer between; rank 1 idles in [0,1] waiting for a, and
// in [5,6], after its last task, waiting for c.
TEST_CASE("a task that waits for another rank without a transfer waits out an imbalance") {
    const TaskGraph graph = fork_join();
    const Costs costs = free_issue({1_s, 2_s, 4_s, 1_s});
    CHECK(breakdown_of(graph, costs, 0) == Breakdown{3_s, 1_s, 0_s, 0_s, 2_s, 0_s});
    CHECK(breakdown_of(graph, costs, 1) == Breakdown{4_s, 0_s, 0_s, 0_s, 2_s, 0_s});
}

// Host work [0, 4], gemm issued at 5: [5, 7]; pass [7, 8]; synchronisation [8, 10]; all-reduce
// issued at 11 on rank 0, at 5 on rank 1: [11, 14]; passes [14, 15]. Rank 0: host [0,5] and [8,11]
// = 8, compute 2, memory 2, transfer 3. Rank 1: waits for rank 0 in [0,11], transfer 3, memory 1.
// Its own host was done at 5 and delayed nothing.
TEST_CASE("what waits for its own host is host time, for another's imbalance") {
    const TaskGraph graph = host_calls(false);
    const Costs costs{{4_s, 2_s, 1_s, 2_s, 4_s, 3_s, 1_s, 1_s},
                      {0_s, 1_s, 1_s, 0_s, 0_s, 1_s, 1_s, 1_s}};
    CHECK(breakdown_of(graph, costs, 0) == Breakdown{2_s, 2_s, 3_s, 0_s, 0_s, 8_s});
    CHECK(breakdown_of(graph, costs, 1) == Breakdown{0_s, 1_s, 3_s, 0_s, 11_s, 0_s});
}

// Ten kernels of 1 s; issuing each takes 3 s. Issues end at 3, 6, .., 30, and kernel i runs in [3
// i, 3 i + 1]. The device idles 3 s at first and 2 s before each later kernel, 21 s in all. All of
// it is host time, although each gap is shorter than an issue.
TEST_CASE("a host that falls behind accounts for every gap") {
    TaskGraph graph;
    for (int i = 0; i < 10; ++i) graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    const Costs costs{std::vector<Seconds>(10, 1_s), std::vector<Seconds>(10, 3_s)};
    CHECK(breakdown_of(graph, costs, 0) == Breakdown{10_s, 0_s, 0_s, 0_s, 0_s, 21_s});
}

// Issue [0, 1], run [1, 3]; the host waits for the kernel, then issues [3, 4], run [4, 5]. Idle [0,
// 1] and [3, 4] are host time.
TEST_CASE("the gap that a blocking launch leaves is the host's") {
    TaskGraph graph(1, true);
    graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    CHECK(breakdown_of(graph, {{2_s, 1_s}, {1_s, 1_s}}, 0) ==
          Breakdown{3_s, 0_s, 0_s, 0_s, 0_s, 2_s});
}

TEST_CASE("the slowest rank is the one that ends last, the lowest of several") {
    Timeline timeline;
    const TaskGraph graph = two_ranks_all_reduce();
    run_in_order(graph, free_issue({1_s, 1_s, 4_s, 1_s, 3_s, 1_s, 1_s, 1_s}), timeline,
                 Record::waits);
    CHECK(slowest_rank(graph, timeline) == 0);
    run_in_order(graph, free_issue({1_s, 1_s, 4_s, 1_s, 3_s, 1_s, 1_s, 2_s}), timeline,
                 Record::waits);
    CHECK(slowest_rank(graph, timeline) == 1);
}

TEST_CASE("the six parts add up to the step on every named and many random graphs") {
    for (const NamedGraph& named : named_graphs()) {
        CAPTURE(named.name);
        for (const bool with_issue : {false, true})
            check_breakdown_adds_up(named.graph, random_costs(named.graph, 3, with_issue), {});
        check_breakdown_adds_up(named.graph, random_costs(named.graph, 3, true), {0.2, 0.5});
    }
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        CAPTURE(seed);
        const TaskGraph graph = random_graph(seed, seed % 2 == 0);
        check_breakdown_adds_up(graph, random_costs(graph, seed, seed % 3 == 0),
                                seed % 4 == 0 ? Interference{0.2, 0.5} : Interference{});
    }
}
