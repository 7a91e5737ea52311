#include <catch2/catch.hpp>

#include <array>
#include <stdexcept>

#include "tests/graphs.h"

using namespace stepcast;
using namespace stepcast::graphs;

TEST_CASE("a place packs a rank and a lane") {
    for (const int rank : {0, 1, 5, 16383})
        for (int lane = 0; lane < lane_count; ++lane) {
            const Place place(rank, static_cast<Lane>(lane));
            CHECK(place.rank() == rank);
            CHECK(place.lane() == static_cast<Lane>(lane));
        }
}

TEST_CASE("a graph gives back what was added") {
    TaskGraph graph(2, true);
    const TaskId a = graph.add("a", Phase::forward, small_gemm(), {compute(0)}, {});
    const TaskId b = graph.add(graph.task_of("b", Phase::gradient_sync, AllReduce{Bytes(64)}, 2.5f),
                               {collective(0), collective(1)}, {a});
    REQUIRE(graph.size() == 2);
    CHECK(graph.rank_count() == 2);
    CHECK(graph.launch_blocking());
    CHECK(graph.name(b) == "b");
    CHECK(graph.phase(b) == Phase::gradient_sync);
    CHECK(graph.op(b) == Op(AllReduce{Bytes(64)}));
    CHECK(graph.host_calls(a) == 1.0f);
    CHECK(graph.host_calls(b) == 2.5f);
    CHECK(std::vector(graph.places(b).begin(), graph.places(b).end()) ==
          std::vector{collective(0), collective(1)});
    CHECK(std::vector(graph.predecessors(b).begin(), graph.predecessors(b).end()) ==
          std::vector{a});
    CHECK(graph.predecessors(a).empty());
    CHECK(graph.place_offset(b) == 1);
    CHECK(graph.place_offset(2) == 3);
}

TEST_CASE("equal names share an id, ops share one when the caller reuses it") {
    TaskGraph graph;
    const NameId name = graph.name_id("gemm");
    CHECK(graph.name_id("other") != name);
    CHECK(graph.name_id("gemm") == name);
    const OpId op = graph.add_op(small_gemm());
    const std::array place{compute(0)};
    for (int i = 0; i < 3; ++i) graph.add({name, Phase::forward, op}, place, {});
    CHECK(graph.ops().size() == 1);
    CHECK(graph.op_id(2) == op);
}

TEST_CASE("graphs built alike are equal, a copy too, and any difference shows") {
    CHECK(host_calls(false) == host_calls(false));
    const TaskGraph graph = alltoall_layer();
    const TaskGraph copy = graph;
    CHECK(copy == graph);
    CHECK_FALSE(host_calls(false) == host_calls(true));
    TaskGraph more = graph;
    more.add("a", Phase::forward, small_gemm(), {compute(0)}, {});
    CHECK_FALSE(more == graph);
}

TEST_CASE("host work is known of a graph and of a task") {
    CHECK_FALSE(chain().has_host_tasks());
    const TaskGraph graph = host_calls(false);
    CHECK(graph.has_host_tasks());
    CHECK(graph.on_host(0));
    CHECK_FALSE(graph.on_host(1));
}

TEST_CASE("a broken task is refused and leaves the graph as it was") {
    TaskGraph graph(2);
    const TaskId a = graph.add("a", Phase::forward, small_gemm(), {compute(0)}, {});
    const TaskGraph before = graph;
    const NameId name = graph.name_id("a");
    const OpId op = graph.op_id(a);
    const auto add = [&](std::vector<Place> places, std::vector<TaskId> after) {
        graph.add({name, Phase::forward, op}, places, after);
    };
    CHECK_THROWS_WITH(add({compute(0)}, {1}),
                      "task_graph: task 1 comes after task 1, which is not earlier");
    CHECK_THROWS_WITH(add({}, {}), "task_graph: task 1 has no place");
    CHECK_THROWS_WITH(add({compute(2)}, {}), "task_graph: task 1 is on rank 2 of 2");
    CHECK_THROWS_AS(add({compute(-1)}, {}), std::logic_error);
    CHECK_THROWS_WITH(add({compute(1), compute(1)}, {}),
                      "task_graph: task 1 names one place twice");
    CHECK_THROWS_WITH(add({compute(0), host(0)}, {}),
                      "task_graph: task 1 is on the host and on a device lane at once");
    const std::array place{compute(0)};
    CHECK_THROWS_AS(graph.add({name + 1, Phase::forward, op}, place, {}), std::logic_error);
    CHECK_THROWS_AS(graph.add({name, Phase::forward, op + 1}, place, {}), std::logic_error);
    CHECK(graph == before);
}

TEST_CASE("a place named twice is found among many") {
    TaskGraph graph(20);
    std::vector<Place> places;
    for (int r = 20; r-- > 0;) places.push_back(collective(r));
    CHECK_NOTHROW(
        graph.add("sum", Phase::forward, AllReduce{Bytes(8)}, places, std::vector<TaskId>()));
    places.front() = places.back();
    CHECK_THROWS_AS(
        graph.add("sum", Phase::forward, AllReduce{Bytes(8)}, places, std::vector<TaskId>()),
        std::logic_error);
}

TEST_CASE("multiplicity is one a rank") {
    TaskGraph graph(2);
    CHECK(graph.multiplicity() == std::vector{1, 1});
    graph.set_multiplicity({3, 5});
    CHECK(graph.multiplicity() == std::vector{3, 5});
    CHECK_THROWS_WITH(graph.set_multiplicity({1}), "task_graph: 1 multiplicities for 2 ranks");
}

TEST_CASE("every lane and phase has a name of its own") {
    CHECK(to_string(Lane::compute) == "compute");
    CHECK(to_string(Lane::receive_down) == "receive_down");
    CHECK(to_string(Phase::gradient_sync) == "gradient_sync");
    for (int a = 0; a < lane_count; ++a)
        for (int b = 0; b < a; ++b)
            CHECK(to_string(static_cast<Lane>(a)) != to_string(static_cast<Lane>(b)));
}
