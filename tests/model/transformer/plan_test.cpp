#include "model/transformer/plan.h"

#include <catch2/catch.hpp>

using namespace stepcast;

namespace {

constexpr int plan_entry = PlannedTask::entry;
const Gemm product{4, 8, 16, 1, Dtype::bf16};

}  // namespace

// A pass moves twice its bytes, a product its own. The host's work has no dependencies unless it
// states them.
TEST_CASE("tasks of a plan follow each other, what the host does beside them apart") {
    TaskGraph graph(4);
    Planner planner(graph, 2);
    planner.compute("pass", MemoryPass{Bytes(3), Bytes(5)});
    planner.host("layer", HostWork{HostWork::Kind::layer, 1}, false);
    planner.compute("product", product, 3);
    planner.host("read", HostWork{HostWork::Kind::read, 1}, true);
    planner.collective("alone", AllReduce{Bytes(7)}, Group{});
    planner.collective("sum", AllReduce{Bytes(7)}, Group{.ranks = 2, .stride = 2});
    const Plan plan = planner.take();
    const std::vector<Op> ops{MemoryPass{Bytes(6), Bytes(10)}, HostWork{HostWork::Kind::layer, 1},
                              product, HostWork{HostWork::Kind::read, 1}, AllReduce{Bytes(7)}};
    std::vector<PlannedTask> expected{
        {.name = graph.name_id("pass"), .after = {plan_entry, plan_entry}},
        {.name = graph.name_id("layer"),
         .lane = Lane::host,
         .host_calls = 0,
         .starts = true,
         .after = {0, plan_entry}},
        {.name = graph.name_id("product"), .host_calls = 3, .after = {0, plan_entry}},
        {.name = graph.name_id("read"),
         .lane = Lane::host,
         .host_calls = 0,
         .after = {2, plan_entry}},
        {.name = graph.name_id("sum"),
         .group = graph.add_group({.ranks = 2, .stride = 2}),
         .lane = Lane::collective,
         .after = {3, plan_entry}}};
    REQUIRE(plan.tasks.size() == 5);
    for (std::size_t i = 0; i < 5; ++i) {
        expected[i].op = plan.tasks[i].op;
        CHECK(graph.ops()[plan.tasks[i].op] == ops[i]);
    }
    CHECK(plan.tasks == expected);
    CHECK(plan.tail == std::array{4, plan_entry});
    CHECK(expected.back().group != 0);
}

// A collective of one rank alone is left out.
TEST_CASE("an overlapped collective runs beside its tasks, and only what follows waits for both") {
    TaskGraph graph(4);
    Planner planner(graph);
    planner.compute("first", product);
    planner.overlap(true, "gather", AllGather{Bytes(7)}, Group{.ranks = 4},
                    [&] { planner.compute("beside", product); });
    planner.compute("last", product);
    planner.overlap(true, "alone", AllGather{Bytes(7)}, Group{}, [] {});
    const Plan plan = planner.take();
    REQUIRE(plan.tasks.size() == 4);
    CHECK(plan.tasks[1].lane == Lane::collective);
    CHECK(plan.tasks[1].group == graph.add_group(Group{.ranks = 4}));
    CHECK(plan.tasks[1].after == std::array{0, plan_entry});
    CHECK(plan.tasks[2].after == std::array{0, plan_entry});
    CHECK(plan.tasks[3].after == std::array{2, 1});
    CHECK(plan.tail == std::array{3, plan_entry});
}

TEST_CASE(
    "an op for each expert-parallel rank is one task with variants, a single one is that op") {
    TaskGraph graph(4);
    Planner planner(graph);
    const Op few = GroupedGemm{{1, 2}, 8, 8}, many = GroupedGemm{{3, 4}, 8, 8};
    planner.compute_by_expert_rank("same", {few}, 2);
    planner.compute_by_expert_rank("each", {few, many}, 2);
    const Plan plan = planner.take();
    CHECK(graph.ops()[plan.tasks[0].op] == few);
    CHECK(plan.tasks[0].op_variants == -1);
    CHECK(plan.tasks[1].op_variants == 0);
    CHECK(plan.tasks[1].host_calls == 2);
    REQUIRE(plan.variants.size() == 1);
    REQUIRE(plan.variants[0].size() == 2);
    CHECK(graph.ops()[plan.variants[0][0]] == few);
    CHECK(graph.ops()[plan.variants[0][1]] == many);
    CHECK(plan.tasks[1].op == plan.variants[0][0]);
    CHECK(plan.tail == std::array{1, plan_entry});
}

// Two products around an exchange; the second runs beside a gather, for which a third waits too.
// The first part ends with the exchange, the second counts its own tasks from 0.
TEST_CASE("a plan in parts ends each but the last with an exchange") {
    TaskGraph graph(4);
    Planner planner(graph);
    planner.compute("before", product);
    planner.collective("exchange", AllToAll{std::vector<Bytes>(4, Bytes(7))}, Group{.ranks = 2});
    planner.compute("after", product);
    planner.overlap(true, "gather", AllGather{Bytes(7)}, Group{.ranks = 4},
                    [&] { planner.compute("beside", product); });
    planner.compute("last", product);
    const Plan plan = planner.take();
    const std::vector<Plan> parts = parts_at_exchanges(plan, graph);
    REQUIRE(parts.size() == 2);
    CHECK(parts[0] == Plan{{plan.tasks[0], plan.tasks[1]}, {}, {1, plan_entry}});
    std::vector<PlannedTask> rest(plan.tasks.begin() + 2, plan.tasks.end());
    rest[0].after = {plan_entry, plan_entry};
    rest[1].after = rest[2].after = {0, plan_entry};
    rest[3].after = {2, 1};
    CHECK(parts[1] == Plan{rest, {}, {3, plan_entry}});
    CHECK(parts_at_exchanges(parts[1], graph) == std::vector{parts[1]});
}
