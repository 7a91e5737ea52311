#include <catch2/catch.hpp>

#include <array>
#include <stdexcept>

#include "model/graph/graph_view.h"
#include "tests/graphs.h"

using namespace stepcast;
using namespace stepcast::graphs;
using namespace stepcast::literals;

// a -> b0, b1 -> c; on the lane of rank 0 a is before b0 and b0 before c, both edges already.
TEST_CASE("dependencies are the predecessors, and on request the queue of each place") {
    using Dependencies = std::vector<Dependency>;
    CHECK(dependencies(fork_join(), Waits::predecessors) == Dependencies{{0, 1}, {0, 2}, {1, 3}, {2, 3}});
    CHECK(dependencies(fork_join(), Waits::predecessors_and_places) ==
          Dependencies{{0, 1}, {0, 2}, {1, 3}, {2, 3}, {0, 1}, {1, 3}});
}

TEST_CASE("an order puts every task after all that it depends on") {
    for (const NamedGraph& named : named_graphs()) {
        CAPTURE(named.name);
        const std::vector<Dependency> edges = dependencies(named.graph, Waits::predecessors_and_places);
        const std::vector<TaskId> order = topological_order(named.graph.size(), edges);
        REQUIRE(order.size() == named.graph.size());
        std::vector<std::size_t> position(order.size(), order.size());
        for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
        for (const Dependency& edge : edges) REQUIRE(position[edge.before] < position[edge.after]);
    }
}

TEST_CASE("a cycle is reported, and so is an edge of a task that does not exist") {
    const std::array cycle{Dependency{0, 1}, Dependency{1, 2}, Dependency{2, 1}};
    CHECK_THROWS_WITH(topological_order(3, cycle), "graph_view: the tasks wait for each other in a cycle");
    CHECK_THROWS_WITH(topological_order(2, cycle), "graph_view: task 1 before 2, but there are 2 tasks");
}

// a 1, b0 2, b1 4, c 1: a, b1, c = 6. With b0 5 instead: a, b0, c = 7.
TEST_CASE("the critical path follows the longer branch, whichever it is") {
    const std::array second{1_s, 2_s, 4_s, 1_s}, first{1_s, 5_s, 4_s, 1_s};
    CHECK(critical_path(fork_join(), second, Waits::predecessors) == CriticalPath{{0, 2, 3}, 6_s});
    CHECK(critical_path(fork_join(), first, Waits::predecessors) == CriticalPath{{0, 1, 3}, 7_s});
}

// Two independent tasks of 2 and 3 on one lane: alone 3, one after the other 5.
TEST_CASE("the queue of a place lies on the critical path when asked for") {
    TaskGraph graph;
    graph.add("a", Phase::forward, small_gemm(), {compute(0)}, {});
    graph.add("b", Phase::forward, small_gemm(), {compute(0)}, {});
    const std::array durations{2_s, 3_s};
    CHECK(critical_path(graph, durations, Waits::predecessors) == CriticalPath{{1}, 3_s});
    CHECK(critical_path(graph, durations) == CriticalPath{{0, 1}, 5_s});
}

TEST_CASE("an empty graph has an empty critical path, and durations must be one a task") {
    CHECK(critical_path(TaskGraph(), {}) == CriticalPath{});
    const std::array durations{1_s};
    CHECK_THROWS_WITH(critical_path(chain(), durations), "critical_path: 1 durations for 3 tasks");
}

TEST_CASE("the picture has a box a task, solid arrows for predecessors and dotted ones for queues") {
    TaskGraph graph;
    const TaskId a = graph.add("a", Phase::forward, small_gemm(), {compute(0)}, {});
    graph.add("b", Phase::forward, small_pass(), {compute(0)}, {});
    graph.add("c \"x\"", Phase::forward, small_pass(), {compute(0)}, {a});
    CHECK(to_dot(graph) ==
          "digraph G {\n"
          "0[shape=box, label=\"0 a\ngemm\nrank 0 compute\"];\n"
          "1[shape=box, label=\"1 b\nmemory_pass\nrank 0 compute\"];\n"
          "2[shape=box, label=\"2 c \\\"x\\\"\nmemory_pass\nrank 0 compute\"];\n"
          "0->2 ;\n"
          "0->1 [style=dotted];\n"
          "1->2 [style=dotted];\n"
          "}\n");
}
