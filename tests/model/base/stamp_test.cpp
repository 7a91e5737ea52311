#include "model/base/stamp.h"

#include <set>

#include <catch2/catch.hpp>

#include "model/graph/task_graph.h"

using namespace stepcast;

// The published values of 64-bit FNV-1a of "", "a" and "foobar" (draft-eastlake-fnv, test vectors).
TEST_CASE("a text's stamp is FNV-1a") {
    CHECK(stamp_of("") == "cbf29ce484222325");
    CHECK(stamp_of("a") == "af63dc4c8601ec8c");
    CHECK(stamp_of("foobar") == "85944171f73967e8");
}

// Two passes on a rank, one after the other, and graphs that differ in a single thing: a name, a
// phase, the kind of an op, a rank, a lane, a predecessor, the number of ranks.
TEST_CASE("graphs that differ in one thing have other stamps") {
    struct Second {
        std::string_view name = "second";
        Phase phase = Phase::forward;
        Op op = MemoryPass{Bytes(1), Bytes(1)};
        Place place = Place(0, Lane::compute);
        bool follows = true;
        int ranks = 2;
    };
    const auto stamp = [](const Second& s) {
        TaskGraph graph(s.ranks, false);
        const TaskId first = graph.add("first", Phase::forward, MemoryPass{Bytes(1), Bytes(1)},
                                       {Place(0, Lane::compute)}, {});
        if (s.follows)
            graph.add(s.name, s.phase, s.op, {s.place}, {first});
        else
            graph.add(s.name, s.phase, s.op, {s.place}, {});
        return stamp_of(graph);
    };
    const std::set<std::string> stamps{stamp({}),
                                       stamp({.name = "other"}),
                                       stamp({.phase = Phase::backward}),
                                       stamp({.op = Gemm{1, 1, 1}}),
                                       stamp({.place = Place(1, Lane::compute)}),
                                       stamp({.place = Place(0, Lane::collective)}),
                                       stamp({.follows = false}),
                                       stamp({.ranks = 3})};
    CHECK(stamps.size() == 8);
    CHECK(stamp({}) == stamp({}));
}
