#include <catch2/catch.hpp>

#include <stdexcept>

#include "sim/simulate.h"
#include "tests/random_graphs.h"

using namespace stepcast;
using namespace stepcast::graphs;
using namespace stepcast::literals;

namespace {

Costs free_issue(std::vector<Seconds> durations) {
    const std::size_t tasks = durations.size();
    return {std::move(durations), std::vector<Seconds>(tasks)};
}

Timeline contended(const TaskGraph& graph, const Costs& costs, const Contention& contention) {
    Timeline timeline;
    run_with_contention(graph, costs, contention, timeline);
    return timeline;
}

Timeline in_order(const TaskGraph& graph, const Costs& costs) {
    Timeline timeline;
    run_in_order(graph, costs, timeline);
    return timeline;
}

// A gemm and an all-reduce over both ranks, side by side on rank 0.
TaskGraph gemm_beside_all_reduce() {
    TaskGraph graph(2);
    graph.add("gemm", Phase::backward, small_gemm(), {compute(0)}, {});
    graph.add("sum", Phase::gradient_sync, AllReduce{1024_B}, {collective(0), collective(1)}, {});
    return graph;
}

}  // namespace

// Compute slowed 1.5 times while the sum runs [0, 4]: 4 s do 4 / 1.5 = 8/3 of 8 s of work, 16/3 are left: 4 + 16/3.
TEST_CASE("a kernel is slowed for as long as communication of its rank runs") {
    const Timeline t = contended(gemm_beside_all_reduce(), free_issue({8_s, 4_s}), {0.5, 0});
    CHECK(t.finish[1] == 4_s);
    CHECK(t.finish[0].si() == Approx(4 + 16.0 / 3).epsilon(1e-14));
    CHECK(t.end == t.finish[0]);
}

// Communication at half speed while the gemm runs [0, 2]: 1 of 4 done, 3 left: 2 + 3 = 5. Compute untouched.
TEST_CASE("a collective is slowed while one of its ranks computes") {
    const Timeline t = contended(gemm_beside_all_reduce(), free_issue({2_s, 4_s}), {0, 1});
    CHECK(t.finish[0] == 2_s);
    CHECK(t.finish[1] == 5_s);
}

// Both: the gemm (3 s of work, factor 1.5) would end at 4.5, the sum (4 s, factor 2) at 8. At 4.5 the sum has done
// 2.25 and needs 1.75 more: 6.25.
TEST_CASE("both sides of an overlap slow each other") {
    const Timeline t = contended(gemm_beside_all_reduce(), free_issue({3_s, 4_s}), {0.5, 1});
    CHECK(t.finish[0] == 4.5_s);
    CHECK(t.finish[1] == 6.25_s);
}

// The gemms of rank 0 are back to back: the sum stays slowed over [0, 2], once: 1 + 1 of work left = [0, 3].
TEST_CASE("kernels back to back slow as one") {
    TaskGraph graph(2);
    graph.add("sum", Phase::forward, AllReduce{1024_B}, {collective(0), collective(1)}, {});
    graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    const Timeline t = contended(graph, free_issue({2_s, 1_s, 1_s}), {0, 1});
    CHECK(t.finish == std::vector{3_s, 1_s, 2_s});
}

// Rank 0 computes [0, 1] and rank 1 [0, 3]: the sum is slowed until the later, 1.5 of 2 done at 3: 3.5.
TEST_CASE("a collective is slowed until the last of its ranks stops computing, and by two as much as by one") {
    TaskGraph graph(2);
    graph.add("sum", Phase::forward, AllReduce{1024_B}, {collective(0), collective(1)}, {});
    graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    graph.add("gemm", Phase::forward, small_gemm(), {compute(1)}, {});
    CHECK(contended(graph, free_issue({2_s, 1_s, 3_s}), {0, 1}).finish == std::vector{3.5_s, 1_s, 3_s});
}

// A sum on rank 1 alone and a gemm on rank 0 never meet, nor does host work slow anything.
TEST_CASE("other ranks and the host do not slow a kernel") {
    TaskGraph graph(2);
    graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    graph.add("sum", Phase::forward, AllReduce{1024_B}, {collective(1)}, {});
    graph.add("host", Phase::forward, HostWork{}, {host(0)}, {}, 0);
    CHECK(contended(graph, free_issue({2_s, 2_s, 2_s}), {1, 1}).finish == std::vector{2_s, 2_s, 2_s});
}

// A fused kernel on both kinds of lane runs its 2 s alone; the send beside it is slowed: 1 of 3 done at 2, then [2, 4].
TEST_CASE("a kernel that holds a communication lane does not slow itself") {
    TaskGraph graph(2);
    graph.add("fused", Phase::forward, small_gemm(), {compute(0), collective(0)}, {});
    CHECK(contended(graph, free_issue({2_s}), {1, 1}).finish == std::vector{2_s});
    graph.add("send", Phase::forward, SendRecv{512_B}, {Place(0, Lane::send_up), Place(1, Lane::receive_up)}, {});
    // The send slows the fused kernel in turn: both at half speed, 1 of 2 done at 2, .. the kernel ends at 4 and the
    // send, 2 of 3 done, at 5.
    CHECK(contended(graph, free_issue({2_s, 3_s}), {1, 1}).finish == std::vector{4_s, 5_s});
}

TEST_CASE("without slowdowns both engines agree on every named graph") {
    for (const NamedGraph& named : named_graphs())
        for (const bool with_issue : {false, true}) {
            CAPTURE(named.name, with_issue);
            const Costs costs = random_costs(named.graph, 7, with_issue);
            CHECK(contended(named.graph, costs, {}) == in_order(named.graph, costs));
        }
}

TEST_CASE("without slowdowns both engines agree on random graphs") {
    for (std::uint64_t seed = 1; seed <= 600; ++seed) {
        CAPTURE(seed);
        const TaskGraph graph = random_graph(seed, seed % 2 == 0);
        const Costs costs = random_costs(graph, seed + 1000, seed % 3 == 0);
        REQUIRE(contended(graph, costs, {}) == in_order(graph, costs));
    }
}

// A task takes at least its duration and at most (1 + slowdown) of it; rules hold; the same input gives the same output.
TEST_CASE("contention keeps the rules and stretches no task by more than its slowdown") {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        CAPTURE(seed);
        const TaskGraph graph = random_graph(seed, seed % 2 == 0);
        const Costs costs = random_costs(graph, seed + 1000, seed % 3 == 0);
        const Contention contention{0.3, 0.7};
        const Timeline timeline = contended(graph, costs, contention);
        REQUIRE(timeline == contended(graph, costs, contention));
        REQUIRE_NOTHROW(check_trace(graph, to_trace(graph, timeline)));
        bool within = true;
        for (TaskId t = 0; t < graph.size(); ++t) {
            const Lane lane = graph.places(t).front().lane();
            const double most = lane == Lane::compute ? 1.3 : lane == Lane::host ? 1.0 : 1.7;
            const double took = (timeline.finish[t] - timeline.start[t]).si(), least = costs.duration[t].si();
            within = within && took >= least - 1e-12 && took <= most * least + 1e-12;
        }
        REQUIRE(within);
    }
}

TEST_CASE("a negative slowdown is refused") {
    CHECK_THROWS_AS(contended(chain(), free_issue({1_s, 1_s, 1_s}), {-0.1, 0}), std::logic_error);
}
