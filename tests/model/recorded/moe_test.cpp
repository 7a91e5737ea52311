#include <catch2/catch.hpp>

#include "model/base/errors.h"
#include "model/recorded/moe/fast_moe.h"
#include "model/recorded/moe/layer.h"
#include "tests/model/block/plan_lines.h"

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

Routing counts(std::vector<int> slots) {
    return {.ranks = 2, .experts = 4, .counts = std::move(slots), .totals = {}};
}

std::vector<std::string> names(const TaskGraph& graph) {
    std::vector<std::string> all;
    for (TaskId t = 0; t < graph.size(); ++t) all.emplace_back(graph.name(t));
    return all;
}

const AllToAll& exchange(const TaskGraph& graph, int which) {
    for (TaskId t = 0; t < graph.size(); ++t)
        if (const auto* op = std::get_if<AllToAll>(&graph.op(t)); op && which-- == 0) return *op;
    throw std::logic_error("no such exchange");
}

}  // namespace

// With d = 1024: t_model = 16 d^2 / 6.25e9 = 2.684 ms, and a slot takes 3 t_mm + 4 t_slot = 2.188
// + 2.621 us = 4.810 us. 2684 / 4.810 = 558.1, so a gap of 559 leads to shadowing and one of 558
// does not.
TEST_CASE("faster_moe shadows the top expert exactly while the gap to the next exceeds 558 slots") {
    CHECK(shadowed_experts(small_layer(), counts({2000, 1441, 0, 0, 0, 0, 0, 0}))[0]);
    CHECK_FALSE(shadowed_experts(small_layer(), counts({2000, 1442, 0, 0, 0, 0, 0, 0}))[0]);
}

// With loads of 5000, 4000, 3900, 0 the gaps are 1000 (shadow) and 100 (stop): only the first
// expert is shadowed, although the gap from 3900 to 0 is large.
TEST_CASE("the shadow rule stops at the first small gap") {
    CHECK(shadowed_experts(small_layer(), counts({5000, 4000, 3900, 0, 0, 0, 0, 0})) ==
          std::vector<bool>{true, false, false, false});
}

// Dispatch group 0 moves the slots of expert 0 (rank 0) and expert 2 (rank 1): rank 0 sends 3 slots
// to rank 1, rank 1 sends 5 to rank 0, and 2 and 7 stay. Combine is its transpose. Experts 1 and 3
// (local index 1) have no slots, so their group is not issued.
TEST_CASE("the exchange has one group per local expert index and skips groups that move nothing") {
    TaskGraph graph(2, true);
    Program program(graph);
    const Routing routing = counts({2, 0, 3, 0, 5, 0, 7, 0});
    add_all_to_all_groups(program, small_layer(), routing, {Phase::forward, Direction::dispatch},
                          std::vector<bool>(4));
    add_all_to_all_groups(program, small_layer(), routing, {Phase::forward, Direction::combine},
                          std::vector<bool>(4));
    REQUIRE(count_of(graph, "dispatch") == 1);
    REQUIRE(count_of(graph, "combine") == 1);
    const Bytes row(2048);
    CHECK(exchange(graph, 0).bytes == std::vector<Bytes>{2 * row, 3 * row, 5 * row, 7 * row});
    CHECK(exchange(graph, 1).bytes == std::vector<Bytes>{2 * row, 5 * row, 3 * row, 7 * row});
}

// Rank 0 owns experts 0 (7 slots) and 1 (none): two module calls, but only one pair of GEMMs of 7
// rows.
TEST_CASE("fast_moe calls every module but computes only experts with slots") {
    TaskGraph graph(2, true);
    Program program(graph);
    add_fast_moe(program, small_layer(), counts({2, 0, 3, 0, 5, 0, 7, 0}), Phase::forward);
    CHECK(count_of(graph, "module") == 4);
    CHECK(count_of(graph, "expert_gemm1") == 2);
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.name(t) == "expert_gemm1" && graph.places(t)[0].rank() == 0)
            CHECK(std::get<Gemm>(graph.op(t)) == Gemm{7, 4096, 1024, 1, Dtype::fp16});
}

// Expert 0 has 5000 slots and is shadowed: its owner broadcasts it once (16.8 MB), both ranks
// compute it for their 3000 and 2000 local slots, and these are not exchanged.
TEST_CASE("faster_moe broadcasts a shadowed expert and computes it where its tokens are") {
    TaskGraph graph(2, true);
    Program program(graph);
    add_faster_moe(program, small_layer(), counts({3000, 10, 0, 0, 2000, 10, 0, 0}),
                   Phase::forward);
    REQUIRE(count_of(graph, "shadow_broadcast") == 1);
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.name(t) == "shadow_broadcast")
            CHECK(std::get<Broadcast>(graph.op(t)) == Broadcast{Bytes(16777216), 0});
    std::vector<long> rows;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.name(t) == "expert_gemm1") rows.push_back(std::get<Gemm>(graph.op(t)).m);
    CHECK(rows == std::vector<long>{20, 3000, 2000});
    CHECK(exchange(graph, 0).bytes ==
          std::vector<Bytes>{10 * Bytes(2048), Bytes(0), 10 * Bytes(2048), Bytes(0)});
}

// Experts 0, 1 and 2 are popular: each rank computes its own slots of them (65 slots make 2
// blocks). Expert 3 is on rank 1: 40 own and 40 remote rows make 2 blocks, of which one is remote:
// 40 rows of 2 KiB.
TEST_CASE("mix_moe computes popular experts everywhere and the others where they live") {
    TaskGraph graph(2, true);
    Program program(graph);
    add_mix_moe(program, small_layer(), counts({640, 640, 65, 40, 640, 640, 65, 40}),
                Phase::forward);
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

// Nine lines a forward and five a backward on each of two ranks, two calls a line. Counts of slots
// are no such record.
TEST_CASE("a run that printed its blocks spent its host's time on that") {
    const auto calls = [](const Routing& routing, Phase phase) {
        TaskGraph graph(2, true);
        Program program(graph);
        add_mix_moe(program, small_layer(), routing, phase);
        double sum = 0;
        for (TaskId t = 0; t < graph.size(); ++t)
            if (graph.name(t) == "trace") sum += std::get<HostWork>(graph.op(t)).calls;
        return sum;
    };
    const Routing printed{.ranks = 2, .experts = 4, .counts = {}, .totals = {{288, 77}, {264, 58}}};
    CHECK(calls(printed, Phase::forward) == 2 * 9 * 2);
    CHECK(calls(printed, Phase::backward) == 2 * 5 * 2);
    CHECK(calls(counts({640, 640, 65, 40, 640, 640, 65, 40}), Phase::forward) == 0);
}

TEST_CASE("mix_moe takes recorded block totals as they are") {
    TaskGraph graph(2, true);
    Program program(graph);
    add_mix_moe(program, small_layer(),
                {.ranks = 2, .experts = 4, .counts = {}, .totals = {{288, 77}, {264, 58}}},
                Phase::forward);
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
    CHECK_THROWS_WITH(add_fast_moe(program, small_layer(), totals, Phase::forward),
                      Catch::Contains("fast_moe") && Catch::Contains("block totals"));
    CHECK_THROWS_AS(add_alltoall(program, small_layer(), totals, Phase::forward), ConfigError);
    CHECK_THROWS_WITH(add_faster_moe(program, small_layer(), totals, Phase::forward),
                      Catch::Contains("faster_moe"));
}

// 7 slots in 2 chunks are 3 and 4. The second dispatch is issued before the first experts, so it
// overlaps them.
TEST_CASE("alltoall in two chunks issues both dispatches first and loses no slot") {
    MoeLayer layer = small_layer();
    layer.overlap_chunks = 2;
    TaskGraph graph(2, false);
    Program program(graph);
    add_alltoall(program, layer, counts({2, 0, 7, 0, 5, 0, 7, 0}), Phase::forward);
    const std::vector<std::string> order = names(graph);
    CHECK(std::count(order.begin(), order.end(), "dispatch") == 2);
    CHECK(exchange(graph, 0).bytes[1] + exchange(graph, 1).bytes[1] == 7 * Bytes(2048));
    CHECK(exchange(graph, 0).bytes[1] == 3 * Bytes(2048));
    const auto second_dispatch =
        std::find(std::find(order.begin(), order.end(), "dispatch") + 1, order.end(), "dispatch");
    CHECK(second_dispatch < std::find(order.begin(), order.end(), "expert_gemm1"));
}

namespace {

using Lines = std::vector<std::string>;
using Add = AddMoeLayer*;

// 6 tokens with two slots each; rows of width 8 have 16 bytes, so slots have 192 bytes. The inner
// width is 24; an expert's weights have 2 x 8 x 24 x 2 = 768 bytes.
Lines lines_of_rank(Add add, Phase phase, const Routing& routing, int rank, bool unfused = false) {
    const MoeLayer layer{.ranks = 2,
                         .experts = 4,
                         .tokens = 6,
                         .top_k = 2,
                         .hidden = 8,
                         .ffn = 24,
                         .dtype = Dtype::fp16,
                         .overlap_chunks = 1,
                         .unfused = unfused};
    TaskGraph graph(2, true);
    Program program(graph);
    add(program, layer, routing, phase);
    return lines_of(graph, rank);
}

}  // namespace

// Experts 0 and 1 are on rank 0, 2 and 3 on rank 1. Of slots with 16 bytes rank 1 sends 5 to expert
// 0, and rank 0 sends 7 to expert 2 and 3 to expert 3; expert 1 gets none. Rank 0 computes 7 rows.
TEST_CASE("fast_moe: every task of a rank") {
    const Routing routing = counts({2, 0, 7, 3, 5, 0, 4, 3});
    CHECK(lines_of_rank(add_fast_moe, Phase::forward, routing, 0) ==
          Lines{"framework 12 calls",     "gate 6x4x8",
                "top_k r48 w48",          "counts all_to_all 32",
                "synchronise 0 calls",    "permute r192 w192",
                "exchange_setup 1 calls", "dispatch all_to_all 192",
                "exchange_setup 1 calls", "dispatch all_to_all 48",
                "synchronise 0 calls",    "module 1 calls",
                "expert_gemm1 7x24x8",    "gelu r336 w336",
                "expert_gemm2 7x8x24",    "module 1 calls",
                "exchange_setup 1 calls", "combine all_to_all 192",
                "exchange_setup 1 calls", "combine all_to_all 48",
                "synchronise 0 calls",    "weighted_sum r192 w192"});
    CHECK(lines_of_rank(add_fast_moe, Phase::backward, routing, 0) ==
          Lines{"framework 12 calls",      "weighted_sum_backward r192 w192",
                "exchange_setup 1 calls",  "dispatch all_to_all 192",
                "exchange_setup 1 calls",  "dispatch all_to_all 48",
                "synchronise 0 calls",     "module 1 calls",
                "dgrad2 7x24x8",           "wgrad2 24x8x7",
                "gelu_backward r672 w336", "dgrad1 7x8x24",
                "wgrad1 8x24x7",           "module 1 calls",
                "exchange_setup 1 calls",  "combine all_to_all 192",
                "exchange_setup 1 calls",  "combine all_to_all 48",
                "synchronise 0 calls",     "permute_backward r192 w192",
                "gate_dgrad 6x8x4",        "gate_wgrad 8x4x6"});
}

// The host waits for the device where it reads counts and at the end of an exchange or pass. It
// does not wait to call modules.
TEST_CASE("FastMoE's host waits for its device where it synchronises alone") {
    const auto waiting = [](Add add, Phase phase) {
        const MoeLayer layer{.ranks = 2,
                             .experts = 4,
                             .tokens = 6,
                             .top_k = 2,
                             .hidden = 8,
                             .ffn = 24,
                             .dtype = Dtype::fp16,
                             .overlap_chunks = 1};
        TaskGraph graph(2, false);
        Program program(graph);
        add(program, layer, counts({2, 0, 17, 3, 5, 0, 4, 3}), phase);
        Lines found;
        for (TaskId t = 0; t < graph.size(); ++t)
            if (graph.on_host(t) && graph.places(t).front().rank() == 0 &&
                !graph.predecessors(t).empty())
                found.push_back(std::string(graph.name(t)) + " after " +
                                std::string(graph.name(graph.predecessors(t).front())));
        return found;
    };
    CHECK(waiting(add_fast_moe, Phase::forward) == Lines{"synchronise after counts",
                                                         "synchronise after dispatch",
                                                         "synchronise after combine"});
    CHECK(waiting(add_fast_moe, Phase::backward) ==
          Lines{"synchronise after dispatch", "synchronise after combine"});
    CHECK(waiting(add_faster_moe, Phase::forward) ==
          Lines{"schedule after counts", "synchronise after combine"});
    CHECK(waiting(add_faster_moe, Phase::backward) == Lines{"synchronise after combine"});
}

// With width 8 the limit is (16 x 64 / 6.25e9 s) / (3 x 8 x 64 / 11.5e12 + 4 x 32 / 6.25e9 s)
// = 7.95 slots. Expert 2 has 21, the next one 7: it is shadowed, and rank 0 computes its own 17 of
// them.
TEST_CASE("faster_moe: every task of a rank") {
    const Routing routing = counts({2, 0, 17, 3, 5, 0, 4, 3});
    CHECK(lines_of_rank(add_faster_moe, Phase::forward, routing, 0) ==
          Lines{"framework 12 calls",
                "gate 6x4x8",
                "top_k r48 w48",
                "counts all_gather 64",
                "schedule 1 calls",
                "permute r192 w192",
                "shadow_broadcast broadcast 768",
                "exchange_setup 1 calls",
                "dispatch all_to_all 80",
                "exchange_setup 1 calls",
                "dispatch all_to_all 48",
                "module 1 calls",
                "expert_gemm1 7x24x8",
                "gelu r336 w336",
                "expert_gemm2 7x8x24",
                "module 1 calls",
                "expert_gemm1 17x24x8",
                "gelu r816 w816",
                "expert_gemm2 17x8x24",
                "exchange_setup 1 calls",
                "combine all_to_all 80",
                "exchange_setup 1 calls",
                "combine all_to_all 48",
                "synchronise 0 calls",
                "weighted_sum r192 w192"});
    // 6 rows of expert 3, 4 of the shadowed one
    const Lines backward = lines_of_rank(add_faster_moe, Phase::backward, routing, 1);
    CHECK(backward == Lines{"framework 12 calls",
                            "schedule 1 calls",
                            "weighted_sum_backward r192 w192",
                            "exchange_setup 1 calls",
                            "dispatch all_to_all 80",
                            "exchange_setup 1 calls",
                            "dispatch all_to_all 48",
                            "module 1 calls",
                            "dgrad2 6x24x8",
                            "wgrad2 24x8x6",
                            "gelu_backward r576 w288",
                            "dgrad1 6x8x24",
                            "wgrad1 8x24x6",
                            "module 1 calls",
                            "dgrad2 4x24x8",
                            "wgrad2 24x8x4",
                            "gelu_backward r384 w192",
                            "dgrad1 4x8x24",
                            "wgrad1 8x24x4",
                            "shadow_reduce reduce 768",
                            "exchange_setup 1 calls",
                            "combine all_to_all 80",
                            "exchange_setup 1 calls",
                            "combine all_to_all 48",
                            "synchronise 0 calls",
                            "permute_backward r192 w192",
                            "gate_dgrad 6x8x4",
                            "gate_wgrad 8x4x6"});
}

// 10 rows go from rank 0 to rank 1 and 5 back: 240 bytes in one exchange.
TEST_CASE("alltoall: every task of a rank") {
    const Routing routing = counts({2, 0, 7, 3, 5, 0, 4, 3});
    CHECK(lines_of_rank(add_alltoall, Phase::forward, routing, 0) ==
          Lines{"gate 6x4x8", "top_k r48 w48", "permute r192 w192", "dispatch all_to_all 240",
                "expert_gemm1 [7,0]x24x8", "gelu r336 w336", "expert_gemm2 [7,0]x8x24",
                "combine all_to_all 240", "weighted_sum r192 w192"});
    CHECK(lines_of_rank(add_alltoall, Phase::backward, routing, 1) ==
          Lines{"weighted_sum_backward r192 w192", "dispatch all_to_all 240", "dgrad2 [11,6]x24x8",
                "wgrad2 [11,6]x24x8 weights", "gelu_backward r1632 w816", "dgrad1 [11,6]x8x24",
                "wgrad1 [11,6]x24x8 weights", "combine all_to_all 240",
                "permute_backward r192 w192", "gate_dgrad 6x8x4", "gate_wgrad 8x4x6"});
}

// Each rank has 2 x ceil(6 / 4) = 4 slots for each expert, whatever the routing: a buffer of 4 x 4
// x 16 = 256 bytes, half of which goes to the other rank. Each of a rank's two experts gets 8 rows:
// 256 bytes of width 8, 768 inside. Six tokens are 96 bytes.
TEST_CASE("alltoall operation by operation: every task of a rank") {
    const Routing routing = counts({2, 0, 7, 3, 5, 0, 4, 3});
    CHECK(lines_of_rank(add_alltoall, Phase::forward, routing, 0, true) ==
          Lines{"gate 6x4x8", "top_k r48 w48", "zeros r0 w256", "encode r96 w96", "encode r96 w96",
                "dispatch all_to_all 256", "expert_gemm1 [8,8]x24x8", "bias r768 w768",
                "gelu r768 w768", "expert_gemm2 [8,8]x8x24", "bias r256 w256",
                "combine all_to_all 256", "decode r96 w96", "decode r96 w96", "sum r192 w96"});
    CHECK(lines_of_rank(add_alltoall, Phase::backward, routing, 1, true) ==
          Lines{"zeros r0 w256",
                "decode_backward r96 w96",
                "decode_backward r96 w96",
                "gate_gradients r192 w0",
                "gate_gradients r192 w0",
                "dispatch all_to_all 256",
                "bias_gradient r256 w0",
                "dgrad2 [8,8]x24x8",
                "wgrad2 [8,8]x24x8 weights",
                "gelu_backward r1536 w768",
                "bias_gradient r768 w0",
                "dgrad1 [8,8]x8x24",
                "wgrad1 [8,8]x24x8 weights",
                "combine all_to_all 256",
                "encode_backward r96 w96",
                "encode_backward r96 w96",
                "sum r192 w96",
                "gate_dgrad 6x8x4",
                "gate_wgrad 8x4x6",
                "sum r192 w96"});
}

// With loads of 200, 30, 260 and 43 experts 2, 0 and 3 are popular. Rank 0 has 4 + 2 + 1 blocks for
// its own 200, 70 and 3 rows of them, and one for expert 1, of whose 30 rows 20 come from rank 1:
// 320 bytes. Weights of 2 + 3 experts are transposed.
TEST_CASE("mix_moe: every task of a rank") {
    const Routing routing = counts({70, 10, 200, 3, 130, 20, 60, 40});
    CHECK(lines_of_rank(add_mix_moe, Phase::forward, routing, 0) ==
          Lines{"barrier barrier 0", "assignment 1 calls", "schedule 1 calls",
                "weight_transpose r3840 w3840", "AG 8 blocks x24x8 1 remote of 320",
                "gelu r24576 w24576", "barrier barrier 0",
                "GA 8 blocks x8x24 1 remote of 320 scatter", "barrier barrier 0",
                "weighted_sum r192 w192"});
    CHECK(lines_of_rank(add_mix_moe, Phase::backward, routing, 1) ==
          Lines{"schedule 1 calls", "weighted_sum_backward r192 w192",
                "AG 5 blocks x24x8 0 remote of 0", "wgrad2 [320]x24x8 weights",
                "gelu_backward r30720 w15360", "barrier barrier 0",
                "GA 5 blocks x8x24 0 remote of 0 scatter", "barrier barrier 0",
                "wgrad1 [320]x24x8 weights", "index_add r192 w192", "gate_dgrad 6x8x4",
                "gate_wgrad 8x4x6"});
}
