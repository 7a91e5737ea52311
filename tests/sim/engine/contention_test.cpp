#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>

#include <catch2/catch.hpp>

#include "sim/engine/contention.h"
#include "sim/engine/simulate.h"
#include "tests/literals.h"
#include "tests/random_graphs.h"
#include "tests/simulated.h"

using namespace stepcast;
using namespace stepcast::graphs;
using namespace stepcast::literals;

namespace {

Timeline contended(const TaskGraph& graph, const Costs& costs, const Interference& contention) {
    Timeline timeline;
    run_with_contention(graph, costs, contention, timeline, Record::waits);
    return timeline;
}

Timeline in_order(const TaskGraph& graph, const Costs& costs) {
    Timeline timeline;
    run_in_order(graph, costs, timeline, Record::waits);
    return timeline;
}

// A gemm and an all-reduce over both ranks, side by side on rank 0.
TaskGraph gemm_beside_all_reduce() {
    TaskGraph graph(2);
    graph.add("gemm", Phase::backward, small_gemm(), {compute(0)}, {});
    graph.add("sum", Phase::gradient_sync, AllReduce{1024_B}, {collective(0), collective(1)}, {});
    return graph;
}

bool communicates(const TaskGraph& graph, TaskId t) {
    return !graph.on_host(t) && graph.places(t).front().lane() != Lane::compute;
}

bool slows(const TaskGraph& graph, TaskId other, TaskId t) {
    if (graph.on_host(other) || graph.on_host(t) ||
        communicates(graph, other) == communicates(graph, t))
        return false;
    return std::ranges::any_of(graph.places(t), [&](Place p) {
        return std::ranges::any_of(graph.places(other),
                                   [&](Place q) { return p.rank() == q.rank(); });
    });
}

// How long any task that slows this one runs beside it: the length of the union of the intervals,
// in order of their starts.
double overlapped(const TaskGraph& graph, const Timeline& timeline, TaskId t) {
    std::vector<std::pair<double, double>> beside;
    for (TaskId other = 0; other < graph.size(); ++other)
        if (slows(graph, other, t))
            beside.emplace_back(std::max(timeline.start[other], timeline.start[t]).si(),
                                std::min(timeline.finish[other], timeline.finish[t]).si());
    std::ranges::sort(beside);
    double sum = 0, reached = timeline.start[t].si();
    for (const auto& [begin, end] : beside) {
        sum += std::max(0.0, end - std::max(begin, reached));
        reached = std::max(reached, end);
    }
    return sum;
}

template <typename Law>
void for_contended_graphs(const Law& law) {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        CAPTURE(seed);
        const TaskGraph graph = random_graph(seed, seed % 2 == 0);
        law(graph, random_costs(graph, seed + 1000, seed % 3 == 0));
    }
}

}  // namespace

// Compute is slowed 1.5 times while the all-reduce runs in [0, 4]: 4 s do 4 / 1.5 = 8/3 of 8 s of
// work, and 16/3 remain: 4 + 16/3.
TEST_CASE("a kernel is slowed for as long as communication of its rank runs") {
    const Timeline t = contended(gemm_beside_all_reduce(), free_issue({8_s, 4_s}), {0.5, 0});
    CHECK(t.finish[1] == 4_s);
    CHECK(t.finish[0].si() == Approx(4 + 16.0 / 3).epsilon(1e-14));
    CHECK(t.end == t.finish[0]);
}

// Communication runs at half speed while the gemm runs in [0, 2]: 1 of 4 is done and 3 remain: 2 +
// 3 = 5. Compute is not slowed.
TEST_CASE("a collective is slowed while one of its ranks computes") {
    const Timeline t = contended(gemm_beside_all_reduce(), free_issue({2_s, 4_s}), {0, 1});
    CHECK(t.finish[0] == 2_s);
    CHECK(t.finish[1] == 5_s);
}

// Both are slowed: the gemm (3 s of work, factor 1.5) ends at 4.5. The all-reduce (4 s, factor 2)
// has then done 2.25 and needs 1.75 more: 6.25.
TEST_CASE("both sides of an overlap slow each other") {
    const Timeline t = contended(gemm_beside_all_reduce(), free_issue({3_s, 4_s}), {0.5, 1});
    CHECK(t.finish[0] == 4.5_s);
    CHECK(t.finish[1] == 6.25_s);
}

// The gemms of rank 0 are back to back and slow the all-reduce once over [0, 2]: 1 done, 1 remains:
// [0, 3].
TEST_CASE("kernels back to back slow as one") {
    TaskGraph graph(2);
    graph.add("sum", Phase::forward, AllReduce{1024_B}, {collective(0), collective(1)}, {});
    graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    const Timeline t = contended(graph, free_issue({2_s, 1_s, 1_s}), {0, 1});
    CHECK(t.finish == std::vector{3_s, 1_s, 2_s});
}

// Rank 0 computes in [0, 1], rank 1 in [0, 3]: the all-reduce is slowed until 3, when 1.5 of 2 are
// done: 3.5.
TEST_CASE(
    "a collective is slowed until the last of its ranks stops computing, and by two as much as by "
    "one") {
    TaskGraph graph(2);
    graph.add("sum", Phase::forward, AllReduce{1024_B}, {collective(0), collective(1)}, {});
    graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    graph.add("gemm", Phase::forward, small_gemm(), {compute(1)}, {});
    CHECK(contended(graph, free_issue({2_s, 1_s, 3_s}), {0, 1}).finish ==
          std::vector{3.5_s, 1_s, 3_s});
}

// An all-reduce on rank 1 alone does not overlap with a gemm on rank 0, and host work slows
// nothing.
TEST_CASE("other ranks and the host do not slow a kernel") {
    TaskGraph graph(2);
    graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    graph.add("sum", Phase::forward, AllReduce{1024_B}, {collective(1)}, {});
    graph.add(graph.task_of("host", Phase::forward, HostWork{}, 0), {host(0)}, {});
    CHECK(contended(graph, free_issue({2_s, 2_s, 2_s}), {1, 1}).finish ==
          std::vector{2_s, 2_s, 2_s});
}

// A fused kernel on a compute and a communication lane takes its 2 s when alone.
TEST_CASE("a kernel that holds a communication lane does not slow itself") {
    TaskGraph graph(2);
    graph.add("fused", Phase::forward, small_gemm(), {compute(0), collective(0)}, {});
    CHECK(contended(graph, free_issue({2_s}), {1, 1}).finish == std::vector{2_s});
    graph.add("send", Phase::forward, SendRecv{512_B},
              {Place(0, Lane::send_up), Place(1, Lane::receive_up)}, {});
    // A send and the fused kernel slow each other to half speed: the kernel ends at 4; by then 2 of
    // the send's 3 s are done: 5.
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

// In steps of a quarter of a second many tasks end at once, so that precedence decides what a task
// waited for.
TEST_CASE("both engines agree on what a task waited for where several things end at once") {
    for (std::uint64_t seed = 1; seed <= 600; ++seed) {
        CAPTURE(seed);
        const TaskGraph graph = random_graph(seed, seed % 2 == 0);
        Costs costs = random_costs(graph, seed + 1000, seed % 3 == 0);
        for (auto* times : {&costs.duration, &costs.issue})
            for (Seconds& time : *times) time = Seconds(std::ceil(4 * time.si()) / 4);
        REQUIRE(contended(graph, costs, {}) == in_order(graph, costs));
    }
}

// Whether the task starts when what it waited for ends, and nothing that comes first on a tie ends
// then.
TEST_CASE("under contention a task starts when what it waited for ends, in either engine") {
    using Kind = WaitedFor::Kind;
    std::array<int, 4> met{};
    const auto check = [&](const TaskGraph& graph, const Timeline& timeline) {
        std::vector<TaskId> last(static_cast<std::size_t>(graph.place_count()), no_task);
        for (TaskId t = 0; t < graph.size(); ++t) {
            const auto [kind, id] = timeline.waited_for[t];
            ++met[static_cast<std::size_t>(kind)];
            const Seconds start = timeline.start[t];
            const auto ends = [&](TaskId other) {
                return other != no_task && start > 0_s && timeline.finish[other] == start;
            };
            const auto predecessor = std::ranges::find_if(graph.predecessors(t), ends);
            const auto lane = std::ranges::find_if(graph.places(t), [&](const Place& place) {
                return place.lane() != Lane::host && ends(last[place.index]);
            });
            if (predecessor != graph.predecessors(t).end())
                REQUIRE(timeline.waited_for[t] == WaitedFor{Kind::predecessor, *predecessor});
            else if (lane != graph.places(t).end())
                REQUIRE(timeline.waited_for[t] == WaitedFor{Kind::lane, last[lane->index]});
            else
                REQUIRE(kind == (start > 0_s ? Kind::host : Kind::nothing));
            if (kind == Kind::host)
                REQUIRE(std::ranges::count(graph.places(t), static_cast<int>(id), &Place::rank) >
                        0);
            for (const Place& place : graph.places(t)) last[place.index] = t;
        }
    };
    for_contended_graphs([&](const TaskGraph& graph, const Costs& costs) {
        check(graph, contended(graph, costs, {0.3, 0.7}));
        check(graph, in_order(graph, costs));
    });
    for (const int times : met) CHECK(times > 100);
}

TEST_CASE("a timeline says what tasks waited for only if that was asked") {
    Timeline timeline;
    const Costs costs = free_issue({1_s, 1_s, 1_s});
    run_in_order(chain(), costs, timeline, Record::waits);
    CHECK(timeline.waited_for.size() == 3);
    run_in_order(chain(), costs, timeline);
    CHECK(timeline.waited_for.empty());
    run_with_contention(chain(), costs, {0.1, 0.1}, timeline, Record::waits);
    CHECK(timeline.waited_for.size() == 3);
    run_with_contention(chain(), costs, {0.1, 0.1}, timeline);
    CHECK(timeline.waited_for.empty());
}

TEST_CASE("contention keeps the rules, and the same input gives the same output") {
    for_contended_graphs([](const TaskGraph& graph, const Costs& costs) {
        const Timeline timeline = contended(graph, costs, {0.3, 0.7});
        REQUIRE(timeline == contended(graph, costs, {0.3, 0.7}));
        REQUIRE_NOTHROW(check_trace(graph, to_trace(graph, timeline)));
    });
}

// For a task of length L, overlapped for O: work = (L - O) + O / (1 + slowdown) = its duration.
TEST_CASE("under contention every task does exactly its work") {
    for_contended_graphs([](const TaskGraph& graph, const Costs& costs) {
        const Interference contention{0.3, 0.7};
        const Timeline timeline = contended(graph, costs, contention);
        double worst = 0;
        for (TaskId t = 0; t < graph.size(); ++t) {
            const double slowdown = communicates(graph, t) ? contention.communication_slowdown
                                                           : contention.compute_slowdown;
            const double beside = overlapped(graph, timeline, t);
            const double work =
                (timeline.finish[t] - timeline.start[t]).si() - beside + beside / (1 + slowdown);
            worst = std::max(worst, std::abs(work - costs.duration[t].si()));
        }
        REQUIRE(worst < 1e-12);
    });
}

// The other engine starts every task at the same time when it is given the resulting length of each
// task.
TEST_CASE("under contention no task starts later than it must") {
    for_contended_graphs([](const TaskGraph& graph, const Costs& costs) {
        const Timeline timeline = contended(graph, costs, {0.3, 0.7});
        Costs stretched = costs;
        for (TaskId t = 0; t < graph.size(); ++t)
            stretched.duration[t] = timeline.finish[t] - timeline.start[t];
        const Timeline expected = in_order(graph, stretched);
        double worst = 0;
        for (TaskId t = 0; t < graph.size(); ++t)
            worst = std::max(worst, std::abs((timeline.start[t] - expected.start[t]).si()));
        REQUIRE(worst < 1e-12);
    });
}

TEST_CASE("a negative slowdown is refused") {
    CHECK_THROWS_AS(contended(chain(), free_issue({1_s, 1_s, 1_s}), {-0.1, 0}), std::logic_error);
}
