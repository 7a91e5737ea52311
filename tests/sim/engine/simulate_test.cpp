#include <catch2/catch.hpp>

#include <stdexcept>

#include "tests/graphs.h"
#include "tests/literals.h"
#include "tests/simulated.h"

using namespace stepcast;
using namespace stepcast::graphs;
using namespace stepcast::literals;

namespace {

// Whole seconds make equality exact.
Costs costs(std::vector<Seconds> durations, std::vector<Seconds> issue = {}) {
    if (issue.empty()) issue.assign(durations.size(), Seconds(0));
    return {std::move(durations), std::move(issue)};
}

Span span(TaskId task, Place place, double start, double finish) {
    return {task, place, Seconds(start), Seconds(finish)};
}

// Forwards take f, backwards b, sends nothing.
Costs pipeline_costs(const TaskGraph& graph, Seconds f, Seconds b) {
    Costs priced;
    for (TaskId t = 0; t < graph.size(); ++t) {
        const bool sends = std::holds_alternative<SendRecv>(graph.op(t));
        priced.duration.push_back(sends ? 0_s : graph.phase(t) == Phase::forward ? f : b);
        priced.issue.push_back(0_s);
    }
    return priced;
}

// Simulates without interference.
Trace trace_in_order(const TaskGraph& graph, const Costs& priced) {
    return simulate(graph, priced, {});
}

Seconds step_by_engine(const TaskGraph& graph, const Costs& priced) {
    return step_end(trace_in_order(graph, priced));
}

}  // namespace

// a = [0, 1], b = [1, 3], c = [3, 6].
TEST_CASE("tasks of a chain follow one another") {
    const Trace expected{
        Trace::Origin::simulated,
        {span(0, compute(0), 0, 1), span(1, compute(0), 1, 3), span(2, compute(0), 3, 6)}};
    CHECK(trace_in_order(chain(), costs({1_s, 2_s, 3_s})) == expected);
}

// a = [0, 1]; b0 = [1, 3] and b1 = [1, 5] side by side; c after the longer: max(3, 5) = [5, 6].
TEST_CASE("a join waits for its longer branch") {
    const Trace expected{Trace::Origin::simulated,
                         {span(0, compute(0), 0, 1), span(1, compute(0), 1, 3),
                          span(2, compute(1), 1, 5), span(3, compute(0), 5, 6)}};
    CHECK(trace_in_order(fork_join(), costs({1_s, 2_s, 4_s, 1_s})) == expected);
}

// Rank 0 computes [0, 1] [1, 2], rank 1 [0, 4] [4, 5]. The first bucket starts at max(1, 4): [4,
// 7]; the second after the lane is free: max(2, 5, 7) = [7, 8]; optimizers [8, 9].
TEST_CASE("a straggler delays a collective on every rank, and collectives queue on their lane") {
    const TaskGraph graph = two_ranks_all_reduce();
    const Trace expected{
        Trace::Origin::simulated,
        {span(0, compute(0), 0, 1), span(1, compute(0), 1, 2), span(2, compute(1), 0, 4),
         span(3, compute(1), 4, 5), span(4, collective(0), 4, 7), span(4, collective(1), 4, 7),
         span(5, collective(0), 7, 8), span(5, collective(1), 7, 8), span(6, compute(0), 8, 9),
         span(7, compute(1), 8, 9)}};
    CHECK(trace_in_order(graph, costs({1_s, 1_s, 4_s, 1_s, 3_s, 1_s, 1_s, 1_s})) == expected);
}

// Issues end at 2 and 4: the first kernel runs [2, 3]; the second could start at 3 but is issued at
// 4: [4, 5].
TEST_CASE("a kernel waits until the host has issued it") {
    TaskGraph graph;
    graph.add("a", Phase::forward, small_gemm(), {compute(0)}, {});
    graph.add("b", Phase::forward, small_gemm(), {compute(0)}, {});
    const Trace expected{Trace::Origin::simulated,
                         {span(0, compute(0), 2, 3), span(1, compute(0), 4, 5)}};
    CHECK(trace_in_order(graph, costs({1_s, 1_s}, {2_s, 2_s})) == expected);
}

// With blocking launches: issue [0, 2], run [2, 3]; the host continues at 3, issues until 5, run
// [5, 6].
TEST_CASE("a blocking launch joins host and device after every kernel") {
    TaskGraph graph(1, true);
    graph.add("a", Phase::forward, small_gemm(), {compute(0)}, {});
    graph.add("b", Phase::forward, small_gemm(), {compute(0)}, {});
    const Trace expected{Trace::Origin::simulated,
                         {span(0, compute(0), 2, 3), span(1, compute(0), 5, 6)}};
    CHECK(trace_in_order(graph, costs({1_s, 1_s}, {2_s, 2_s})) == expected);
}

// Host 0 works [0, 4] and issues the gemm until 5: [5, 7]; it issues the pass until 6, which runs
// after the gemm: [7, 8]. The synchronisation waits for the pass: [8, 10]. Host 1 works [0, 4] and
// issues the all-reduce until 5, host 0 until 11: [11, 14]. Rank 0's last pass is issued at 12,
// rank 1's at 6; both run after the all-reduce: [14, 15].
TEST_CASE("a synchronisation holds up what the host issues next") {
    const TaskGraph graph = host_calls(false);
    const Trace trace = trace_in_order(graph, costs({4_s, 2_s, 1_s, 2_s, 4_s, 3_s, 1_s, 1_s},
                                                    {0_s, 1_s, 1_s, 0_s, 0_s, 1_s, 1_s, 1_s}));
    const Trace expected{
        Trace::Origin::simulated,
        {span(0, host(0), 0, 4), span(1, compute(0), 5, 7), span(2, compute(0), 7, 8),
         span(3, host(0), 8, 10), span(4, host(1), 0, 4), span(5, collective(0), 11, 14),
         span(5, collective(1), 11, 14), span(6, compute(0), 14, 15), span(7, compute(1), 14, 15)}};
    CHECK(trace == expected);
}

// Host work [0, 4]; the kernel costs nothing to issue, yet the host reaches it at 4: [4, 5].
TEST_CASE("host work holds up a kernel that costs nothing to issue") {
    TaskGraph graph;
    graph.add(graph.task_of("framework", Phase::forward, HostWork{}, 0), {host(0)}, {});
    graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    const Trace expected{Trace::Origin::simulated,
                         {span(0, host(0), 0, 4), span(1, compute(0), 4, 5)}};
    CHECK(trace_in_order(graph, costs({4_s, 1_s})) == expected);
}

// One task on two lanes of one rank: its host issues it once, until 2: [2, 3]; the next is issued
// at 3, not at 5.
TEST_CASE("a task with two places on one rank is issued there once") {
    TaskGraph graph;
    graph.add("fused", Phase::forward, small_gemm(), {compute(0), collective(0)}, {});
    graph.add("next", Phase::forward, small_gemm(), {compute(0)}, {});
    const Trace expected{
        Trace::Origin::simulated,
        {span(0, compute(0), 2, 3), span(0, collective(0), 2, 3), span(1, compute(0), 3, 4)}};
    CHECK(trace_in_order(graph, costs({1_s, 1_s}, {2_s, 1_s})) == expected);
}

// GPipe and 1F1B with free sends: (m + p - 1) (f + b).
TEST_CASE("pipelines with free sends take the closed form") {
    for (const auto schedule :
         {PipelineShape::Schedule::one_f_one_b, PipelineShape::Schedule::gpipe})
        for (const int p : {1, 2, 3, 4, 8})
            for (const int m : {8, 9, 32}) {
                CAPTURE(p, m, schedule == PipelineShape::Schedule::gpipe);
                const TaskGraph graph = pipeline({p, m, schedule});
                CHECK(step_by_engine(graph, pipeline_costs(graph, 1_s, 2_s)) ==
                      Seconds(3.0 * (m + p - 1)));
            }
}

// (32 + 8 - 1) (2 + 4) = 234.
TEST_CASE(
    "1F1B of 8 stages and 32 micro-batches takes the closed form with separate send and receive "
    "lanes") {
    const TaskGraph graph = pipeline({8, 32});
    CHECK(graph.size() == 960);
    CHECK(step_by_engine(graph, pipeline_costs(graph, 2_s, 4_s)) == 234_s);
}

// Issued last stage first, a stage's receive of a later micro-batch often comes before its send of
// an earlier one. With lanes of their own neither waits for the other, (32 + 8 - 1) (2 + 4) = 234;
// on one shared lane the send queues behind the receive.
TEST_CASE(
    "separate send and receive lanes make 1F1B independent of the issue order, one lane for both "
    "does not") {
    using Shape = PipelineShape;
    for (const auto turns : {Shape::Turns::first_stage_first, Shape::Turns::last_stage_first}) {
        const TaskGraph graph = pipeline(
            {8, 32, Shape::Schedule::one_f_one_b, Shape::SendLanes::one_a_direction, turns});
        CHECK(step_by_engine(graph, pipeline_costs(graph, 2_s, 4_s)) == 234_s);
    }
    const TaskGraph graph = pipeline({8, 32, Shape::Schedule::one_f_one_b, Shape::SendLanes::one,
                                      Shape::Turns::last_stage_first});
    CHECK(step_by_engine(graph, pipeline_costs(graph, 2_s, 4_s)) > 234_s);
}

// Rank 0 receives what rank 1 computes until 5: [5, 6]. Its own send is ready at 1. On one lane the
// send queues behind the receive: [6, 7]; on separate lanes it runs [1, 2].
TEST_CASE("a receive that waits holds up a send behind it on the same lane only") {
    const auto sends = [](Lane down, Lane receive_down, Lane up, Lane receive_up) {
        TaskGraph graph(2);
        const TaskId slow = graph.add("slow", Phase::backward, small_gemm(), {compute(1)}, {});
        graph.add("down", Phase::backward, SendRecv{512_B},
                  {Place(1, down), Place(0, receive_down)}, {slow});
        const TaskId quick = graph.add("quick", Phase::forward, small_gemm(), {compute(0)}, {});
        graph.add("up", Phase::forward, SendRecv{512_B}, {Place(0, up), Place(1, receive_up)},
                  {quick});
        return trace_in_order(graph, costs({5_s, 1_s, 1_s, 1_s})).spans.back();
    };
    const Lane one = Lane::collective;
    CHECK(sends(one, one, one, one) == span(3, collective(1), 6, 7));
    CHECK(sends(Lane::send_down, Lane::receive_down, Lane::send_up, Lane::receive_up) ==
          span(3, Place(1, Lane::receive_up), 1, 2));
}

TEST_CASE("every named graph simulates to a trace that keeps the rules") {
    for (const NamedGraph& named : named_graphs()) {
        CAPTURE(named.name);
        Costs priced;
        for (TaskId t = 0; t < named.graph.size(); ++t) {
            priced.duration.push_back(Seconds(1 + t % 3));
            priced.issue.push_back(Seconds(named.graph.host_calls(t)));
        }
        CHECK_NOTHROW(check_trace(named.graph, trace_in_order(named.graph, priced)));
    }
}

TEST_CASE("an empty graph ends at once") {
    CHECK(trace_in_order(TaskGraph(), Costs{}).spans.empty());
}

// An all-reduce of 4 s beside a gemm of 4 s: without interference both end at 4. Then one slows the
// other by a half, each in turn.
TEST_CASE("interference of either kind is counted") {
    TaskGraph graph;
    graph.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    graph.add("sum", Phase::forward, AllReduce{1024_B}, {collective(0)}, {});
    const auto finish = [&](double computing, double communicating) {
        Interference i;
        i.compute_slowdown = computing;
        i.communication_slowdown = communicating;
        Timeline timeline;
        run(graph, costs({4_s, 4_s}), i, timeline);
        return timeline.finish;
    };
    CHECK(finish(0, 0) == std::vector{4_s, 4_s});
    CHECK(finish(0.5, 0)[1] == 4_s);
    CHECK(finish(0.5, 0)[0].si() == Approx(4 + 4.0 / 3));  // 4 / 1.5 done at 4
    CHECK(finish(0, 0.5)[0] == 4_s);
    CHECK(finish(0, 0.5)[1].si() == Approx(4 + 4.0 / 3));
}

TEST_CASE("costs that are not one a task are refused") {
    CHECK_THROWS_AS(trace_in_order(chain(), costs({1_s, 2_s})), std::logic_error);
    CHECK_THROWS_AS(trace_in_order(chain(), Costs{{1_s, 2_s, 3_s}, {}}), std::logic_error);
    CHECK_THROWS_AS(simulate(chain(), Costs{{1_s, 2_s, 3_s}, {}}, {0.1, 0.1}), std::logic_error);
}
