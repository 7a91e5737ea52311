#include <catch2/catch.hpp>

#include <stdexcept>

#include "model/graph/trace.h"
#include "tests/graphs.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::graphs;
using namespace stepcast::literals;

namespace {

Span span(TaskId task, Place place, double start, double finish) {
    return {task, place, Seconds(start), Seconds(finish)};
}

// Task a on rank 0, then a sum over both ranks, then b on rank 1.
TaskGraph across() {
    TaskGraph graph(2);
    const TaskId a = graph.add("a", Phase::forward, small_gemm(), {compute(0)}, {});
    const TaskId sum =
        graph.add("sum", Phase::forward, AllReduce{8_B}, {collective(0), collective(1)}, {a});
    graph.add("b", Phase::forward, small_gemm(), {compute(1)}, {sum});
    return graph;
}

Trace whole() {
    return {Trace::Origin::executed,
            {span(0, compute(0), 0, 1), span(1, collective(0), 1, 2), span(1, collective(1), 1, 3),
             span(2, compute(1), 3, 4)}};
}

}  // namespace

TEST_CASE("a step ends with its latest span") {
    CHECK(step_end(whole()) == 4_s);
    CHECK(step_end(Trace{}) == 0_s);
}

TEST_CASE("a trace that keeps the rules passes") { CHECK_NOTHROW(check_trace(across(), whole())); }

TEST_CASE("a missing, a doubled and a foreign span are named") {
    Trace trace = whole();
    trace.spans.pop_back();
    CHECK_THROWS_WITH(check_trace(across(), trace), "check_trace: no span of task 2 (b) on rank 1");
    trace = whole();
    trace.spans.push_back(trace.spans.back());
    CHECK_THROWS_WITH(check_trace(across(), trace),
                      "check_trace: 1 spans more than the graph has places");
    trace = whole();
    std::swap(trace.spans[1], trace.spans[2]);
    CHECK_THROWS_AS(check_trace(across(), trace), std::logic_error);
}

TEST_CASE("a span that names another task of its place is named") {
    TaskGraph graph;
    for (const char* name : {"a", "b"})
        graph.add(name, Phase::forward, small_gemm(), {compute(0)}, {});
    const Trace swapped{Trace::Origin::executed,
                        {span(1, compute(0), 0, 1), span(0, compute(0), 1, 2)}};
    CHECK_THROWS_WITH(check_trace(graph, swapped),
                      "check_trace: span 0 is of task 1 on rank 0, expected task 0 (a) on rank 0");
}

// Rank 0 leaves the sum at 2 and continues, while rank 1 leaves it at 3.
TEST_CASE("a rank that took part in a collective goes on when it has left it itself") {
    TaskGraph graph = across();
    graph.add("c", Phase::forward, small_gemm(), {compute(0)}, {1});
    Trace trace = whole();
    trace.spans.push_back(span(3, compute(0), 2, 3));
    CHECK_NOTHROW(check_trace(graph, trace));
    trace.spans.back().start = Seconds(1.5);
    CHECK_THROWS_WITH(check_trace(graph, trace),
                      "check_trace: task 3 (c) starts before its predecessor 1 (sum) has finished");
}

// Task a ends at 1 on rank 0. Rank 1 does not take part in it and may not begin the sum before.
TEST_CASE("a rank that did not take part waits for every rank that did") {
    Trace trace = whole();
    trace.spans[2].start = Seconds(0.5);
    CHECK_THROWS_WITH(check_trace(across(), trace),
                      "check_trace: task 1 (sum) starts before its predecessor 0 (a) has finished");
}

// A message from rank 0 to 1 ends at 2 on rank 1 and at 2.5 on the sender; the sum of ranks 1 and 2
// begins when rank 1 has arrived.
TEST_CASE("a rank that did not take part waits for those that meet it, not for who is elsewhere") {
    TaskGraph graph(3);
    const Place up(0, Lane::send_up), down(1, Lane::receive_up);
    const TaskId message = graph.add("message", Phase::forward, SendRecv{8_B, 1}, {up, down}, {});
    graph.add("sum", Phase::forward, AllReduce{8_B}, {collective(1), collective(2)}, {message});
    Trace trace{Trace::Origin::executed,
                {span(0, up, 0, 2.5), span(0, down, 0, 2), span(1, collective(1), 2, 3),
                 span(1, collective(2), 2, 3)}};
    CHECK_NOTHROW(check_trace(graph, trace));
    trace.spans.back().start = Seconds(1.5);
    CHECK_THROWS_WITH(
        check_trace(graph, trace),
        "check_trace: task 1 (sum) starts before its predecessor 0 (message) has finished");
    trace.spans.back().finish = Seconds(1.5);  // it only sends, and ends before rank 1 arrives
    CHECK_NOTHROW(check_trace(graph, trace));
}

// Rank 1 leaves the sum at 3, so b may start there at 3 at the earliest, apart from the slack.
TEST_CASE("a task before its predecessor is named, beyond the slack") {
    Trace trace = whole();
    trace.spans[3].start = Seconds(2.5);
    CHECK_THROWS_WITH(check_trace(across(), trace),
                      "check_trace: task 2 (b) starts before its predecessor 1 (sum) has finished");
    CHECK_NOTHROW(check_trace(across(), trace, 0.5_s));
}

TEST_CASE("tasks of one place that overlap, or run out of id order, are named") {
    TaskGraph graph;
    graph.add("a", Phase::forward, small_gemm(), {compute(0)}, {});
    graph.add("b", Phase::forward, small_gemm(), {compute(0)}, {});
    const auto check = [&](double a, double b) {
        check_trace(graph, {Trace::Origin::executed,
                            {span(0, compute(0), a, a + 2), span(1, compute(0), b, b + 2)}});
    };
    CHECK_NOTHROW(check(0, 2));
    CHECK_THROWS_WITH(check(0, 1), "check_trace: task 1 (b) starts while rank 0 compute is busy");
    CHECK_THROWS_AS(check(2, 0), std::logic_error);
}

TEST_CASE("a task that ends before it starts is named") {
    Trace trace = whole();
    trace.spans[0].start = 5_s;
    CHECK_THROWS_WITH(check_trace(across(), trace),
                      "check_trace: task 0 (a) finishes before it starts");
}
