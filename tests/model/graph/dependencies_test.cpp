#include "model/graph/dependencies.h"

#include <catch2/catch.hpp>

#include <vector>

#include <boost/graph/graph_concepts.hpp>
#include <boost/graph/topological_sort.hpp>

#include "tests/random_graphs.h"

using namespace stepcast;
using namespace stepcast::graphs;

BOOST_CONCEPT_ASSERT((boost::VertexListGraphConcept<DependencyGraph>));
BOOST_CONCEPT_ASSERT((boost::EdgeListGraphConcept<DependencyGraph>));
BOOST_CONCEPT_ASSERT((boost::IncidenceGraphConcept<DependencyGraph>));

// Task 1 waits for 0, task 2 for nothing, task 3 for 0 and 2.
TEST_CASE("tasks are vertices, and edges lead to what they wait for") {
    TaskGraph tasks;
    const auto add = [&](std::vector<TaskId> after) {
        tasks.add("pass", Phase::forward, small_pass(), std::vector{compute(0)}, after);
    };
    add({}), add({0}), add({}), add({0, 2});
    const DependencyGraph g(tasks);
    CHECK(num_vertices(g) == 4);
    CHECK(num_edges(g) == 3);
    const auto [first, last] = edges(g);
    CHECK(std::vector<Dependency>(first, last) == std::vector<Dependency>{{1, 0}, {3, 0}, {3, 2}});
    const auto [begin, end] = out_edges(3, g);
    CHECK(std::vector<Dependency>(begin, end) == std::vector<Dependency>{{3, 0}, {3, 2}});
    CHECK(out_degree(2, g) == 0);
    CHECK((out_edges(2, g).first == out_edges(2, g).second));
    CHECK((source(*first, g) == 1 && target(*first, g) == 0));
}

TEST_CASE("a graph without tasks or without edges has none") {
    TaskGraph tasks;
    CHECK((num_vertices(DependencyGraph(tasks)) == 0 && num_edges(DependencyGraph(tasks)) == 0));
    CHECK((edges(DependencyGraph(tasks)).first == edges(DependencyGraph(tasks)).second));
    tasks.add("pass", Phase::forward, small_pass(), std::vector{compute(0)}, std::vector<TaskId>{});
    CHECK((num_vertices(DependencyGraph(tasks)) == 1 && num_edges(DependencyGraph(tasks)) == 0));
    CHECK((edges(DependencyGraph(tasks)).first == edges(DependencyGraph(tasks)).second));
}

// boost::topological_sort() throws boost::not_a_dag for a cycle. Its result begins with what waits
// for nothing.
TEST_CASE("Boost's topological sort finds no cycle and puts each task behind those it waits for") {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        CAPTURE(seed);
        const TaskGraph tasks = random_graph(seed, seed % 2 == 0);
        std::vector<TaskId> order;
        DependencyGraph g(tasks);
        boost::topological_sort(g, std::back_inserter(order));
        REQUIRE(order.size() == tasks.size());
        std::vector<std::size_t> place(tasks.size());
        for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
        for (TaskId t = 0; t < tasks.size(); ++t)
            for (const TaskId earlier : tasks.predecessors(t)) REQUIRE(place[earlier] < place[t]);
    }
}
