#include <catch2/catch.hpp>

#include "model/errors.h"
#include "model/moe/layer.h"

using namespace stepcast;

namespace {

// 2 ranks, 2 experts a rank, rows of 1024 fp16 values = 2 KiB.
MoeLayer small_layer() {
    return {.ranks = 2,
            .experts = 4,
            .tokens = 8192,
            .top_k = 2,
            .hidden = 1024,
            .ffn = 4096,
            .dtype = Dtype::fp16,
            .overlap_chunks = 1};
}

Routing counts(std::vector<int> slots) { return {.ranks = 2, .experts = 4, .counts = std::move(slots), .totals = {}}; }

std::vector<std::string> names(const TaskGraph& graph) {
    std::vector<std::string> all;
    for (TaskId t = 0; t < graph.size(); ++t) all.emplace_back(graph.name(t));
    return all;
}

int count_of(const TaskGraph& graph, std::string_view name) {
    int n = 0;
    for (TaskId t = 0; t < graph.size(); ++t) n += graph.name(t) == name;
    return n;
}

const AllToAll& exchange(const TaskGraph& graph, int which) {
    for (TaskId t = 0; t < graph.size(); ++t)
        if (const auto* op = std::get_if<AllToAll>(&graph.op(t)); op && which-- == 0) return *op;
    throw std::logic_error("no such exchange");
}

}  // namespace

// d = 1024: t_model = 16 d^2 / 6.25e9 = 2.684 ms; 3 t_mm + 4 t_slot = 2.188 + 2.621 us = 4.810 us a slot; 2684 / 4.810
// = 558.1, so a gap of 559 shadows and one of 558 does not.
TEST_CASE("faster_moe shadows the top expert exactly while the gap to the next exceeds 558 slots") {
    CHECK(shadowed_experts(small_layer(), counts({2000, 1441, 0, 0, 0, 0, 0, 0}))[0]);
    CHECK_FALSE(shadowed_experts(small_layer(), counts({2000, 1442, 0, 0, 0, 0, 0, 0}))[0]);
}

// Loads 5000, 4000, 3900, 0: gaps 1000 (shadow), 100 (stop): only the first, although 3900 -> 0 is a large gap.
TEST_CASE("the shadow rule stops at the first small gap") {
    CHECK(shadowed_experts(small_layer(), counts({5000, 4000, 3900, 0, 0, 0, 0, 0})) ==
          std::vector<bool>{true, false, false, false});
}

// Dispatch group 0 moves expert 0 (rank 0) and expert 2 (rank 1): rank 0 sends 3 slots to rank 1, rank 1 sends 5 to
// rank 0, 2 and 7 stay. Combine is its transpose. Local expert 1 (experts 1 and 3) has no slots: its group is not issued.
TEST_CASE("the exchange has one group per local expert index and skips groups that move nothing") {
    TaskGraph graph(2, true);
    Program program(graph);
    const Routing routing = counts({2, 0, 3, 0, 5, 0, 7, 0});
    add_all_to_all_groups(program, small_layer(), routing, Phase::forward, Direction::dispatch, std::vector<bool>(4));
    add_all_to_all_groups(program, small_layer(), routing, Phase::forward, Direction::combine, std::vector<bool>(4));
    REQUIRE(count_of(graph, "dispatch") == 1);
    REQUIRE(count_of(graph, "combine") == 1);
    const Bytes row(2048);
    CHECK(exchange(graph, 0).bytes == std::vector<Bytes>{2 * row, 3 * row, 5 * row, 7 * row});
    CHECK(exchange(graph, 1).bytes == std::vector<Bytes>{2 * row, 5 * row, 3 * row, 7 * row});
}

// Rank 0 owns experts 0 (7 slots) and 1 (none): two module calls, one pair of GEMMs of 7 rows.
TEST_CASE("fast_moe calls every module but computes only experts with slots") {
    TaskGraph graph(2, true);
    Program program(graph);
    add_fast_moe_forward(program, small_layer(), counts({2, 0, 3, 0, 5, 0, 7, 0}));
    CHECK(count_of(graph, "module") == 4);
    CHECK(count_of(graph, "expert_gemm1") == 2);
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.name(t) == "expert_gemm1" && graph.places(t)[0].rank() == 0)
            CHECK(std::get<Gemm>(graph.op(t)) == Gemm{7, 4096, 1024, 1, Dtype::fp16});
}

// Expert 0 has 5000 of the slots and is shadowed: one broadcast of 16.8 MB from its owner, computed on both ranks for
// 3000 and 2000 local slots, and not exchanged.
TEST_CASE("faster_moe broadcasts a shadowed expert and computes it where its tokens are") {
    TaskGraph graph(2, true);
    Program program(graph);
    add_faster_moe_forward(program, small_layer(), counts({3000, 10, 0, 0, 2000, 10, 0, 0}));
    REQUIRE(count_of(graph, "shadow_broadcast") == 1);
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.name(t) == "shadow_broadcast")
            CHECK(std::get<Broadcast>(graph.op(t)) == Broadcast{Bytes(16777216), 0});
    std::vector<long> rows;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.name(t) == "expert_gemm1") rows.push_back(std::get<Gemm>(graph.op(t)).m);
    CHECK(rows == std::vector<long>{20, 3000, 2000});
    CHECK(exchange(graph, 0).bytes == std::vector<Bytes>{10 * Bytes(2048), Bytes(0), 10 * Bytes(2048), Bytes(0)});
}

// Experts 0, 1, 2 are popular: each rank computes its own slots of them, 65 -> 2 blocks. Expert 3 lives on rank 1: 40
// own and 40 remote rows make 2 blocks, of which one block's worth is remote: 40 rows of 2 KiB.
TEST_CASE("mix_moe computes popular experts everywhere and the others where they live") {
    TaskGraph graph(2, true);
    Program program(graph);
    add_mix_moe_forward(program, small_layer(), counts({640, 640, 65, 40, 640, 640, 65, 40}));
    std::vector<FusedGemm> gather;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.name(t) == "AG") gather.push_back(std::get<FusedGemm>(graph.op(t)));
    REQUIRE(gather.size() == 2);
    CHECK(gather[0].blocks == 22);
    CHECK(gather[0].remote_blocks == 0);
    CHECK(gather[1].blocks == 24);
    CHECK(gather[1].remote_blocks == 1);
    CHECK(gather[1].remote_bytes_per_block == Bytes(40 * 2048));
}

TEST_CASE("mix_moe takes recorded block totals as they are") {
    TaskGraph graph(2, true);
    Program program(graph);
    add_mix_moe_forward(program, small_layer(),
                        {.ranks = 2, .experts = 4, .counts = {}, .totals = {{288, 77}, {264, 58}}});
    for (TaskId t = 0; t < graph.size(); ++t) {
        if (graph.name(t) != "AG" || graph.places(t)[0].rank() != 0) continue;
        CHECK(std::get<FusedGemm>(graph.op(t)).blocks == 288);
        CHECK(std::get<FusedGemm>(graph.op(t)).remote_blocks == 77);
        CHECK(std::get<FusedGemm>(graph.op(t)).remote_bytes_per_block == Bytes(64 * 2048));
    }
}

TEST_CASE("the other systems refuse block totals by name") {
    TaskGraph graph(2, true);
    Program program(graph);
    const Routing totals{.ranks = 2, .experts = 4, .counts = {}, .totals = {{288, 77}, {264, 58}}};
    CHECK_THROWS_WITH(add_fast_moe_forward(program, small_layer(), totals),
                      Catch::Contains("fast_moe") && Catch::Contains("block totals"));
    CHECK_THROWS_AS(add_alltoall_forward(program, small_layer(), totals), ConfigError);
}

// 7 slots in 2 chunks: 3 and 4. The second dispatch is issued before the first experts, so it runs beside them.
TEST_CASE("alltoall in two chunks issues both dispatches first and loses no slot") {
    MoeLayer layer = small_layer();
    layer.overlap_chunks = 2;
    TaskGraph graph(2, false);
    Program program(graph);
    add_alltoall_forward(program, layer, counts({2, 0, 7, 0, 5, 0, 7, 0}));
    const std::vector<std::string> order = names(graph);
    CHECK(std::count(order.begin(), order.end(), "dispatch") == 2);
    CHECK(exchange(graph, 0).bytes[1] + exchange(graph, 1).bytes[1] == 7 * Bytes(2048));
    CHECK(exchange(graph, 0).bytes[1] == 3 * Bytes(2048));
    const auto second_dispatch =
        std::find(std::find(order.begin(), order.end(), "dispatch") + 1, order.end(), "dispatch");
    CHECK(second_dispatch < std::find(order.begin(), order.end(), "expert_gemm1"));
}
