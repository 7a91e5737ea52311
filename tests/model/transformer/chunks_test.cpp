// Layers of stage chunks.
#include "model/transformer/chunks.h"

#include <catch2/catch.hpp>

#include "model/transformer/counts.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

std::vector<int> laid(int layers, int stages, StageLayout layout, int chunks = 1) {
    Experiment e = small_gpt();
    e.workload.layers = layers;
    e.parallelism.pp = stages;
    e.parallelism.vp = chunks;
    e.parallelism.layout = layout;
    return chunk_layers(e.workload, e.parallelism);
}

}  // namespace

// 94 layers on 8 stages. even: stage s ends with layer 94 s / 8, rounded down: 11, 23, 35, 47, 58,
// 70, 82, 94. With both ends counted they are 96 = 8 x 12, with the logits alone 95 = 7 x 12 + 11,
// with the embedding alone the same, less one in the first stage.
TEST_CASE("the ends of the model count as layers of their stages") {
    CHECK(laid(94, 8, StageLayout::even) == std::vector{11, 12, 12, 12, 11, 12, 12, 12});
    CHECK(laid(94, 8, StageLayout::light_ends) == std::vector{11, 12, 12, 12, 12, 12, 12, 11});
    CHECK(laid(94, 8, StageLayout::light_last) == std::vector{12, 12, 12, 12, 12, 12, 12, 10});
    CHECK(laid(94, 8, StageLayout::light_first) == std::vector{11, 12, 12, 12, 12, 12, 12, 11});
}

// 61 layers and the logits on 16 stages: 62 = 14 x 4 + 2 x 3, of which the last has the logits.
TEST_CASE("the remainder is in the first stages") {
    std::vector<int> expected(16, 4);
    expected[14] = 3;
    expected[15] = 2;
    CHECK(laid(61, 16, StageLayout::light_last) == expected);
}

// 14 layers and both ends over 2 stages of 2 chunks: 16 = 4 x 4.
TEST_CASE("chunks are laid, not stages") {
    CHECK(laid(14, 2, StageLayout::light_ends, 2) == std::vector{3, 4, 4, 3});
}

// A layer of width 64 with a feed-forward block of 256 over 64 tokens: 2 (4 x 64^2 + 2 x 64 x 256)
// + 4 x 64 x 64 = 114,688 operations a token; logits of 1,792 words 2 x 64 x 1,792 = 229,376, two
// layers. 8 + 2 over two stages: 5 and 3 with the logits. Over three: 10 / 3, so 4 is the least
// fullest stage, and stages fill from the front: 4, 4 and none beside the logits.
TEST_CASE("balanced stages have equal work, with the logits counted") {
    Experiment e = small_gpt();
    Workload& w = e.workload;
    w.hidden = 64;
    w.heads = w.kv_heads = 4;
    w.head_dim = 16;
    w.ffn = 256;
    w.gated = false;
    w.seq = 64;
    w.vocab = 1792;
    w.layers = 8;
    REQUIRE(layer_forward_flops(w, 0).si() == 114688);
    REQUIRE(logits_forward_flops(w).si() == 229376);
    e.parallelism.layout = StageLayout::balanced;
    e.parallelism.pp = 2;
    CHECK(chunk_layers(w, e.parallelism) == std::vector{5, 3});
    e.parallelism.pp = 3;
    CHECK(chunk_layers(w, e.parallelism) == std::vector{4, 4, 0});
}

TEST_CASE("stated layers are taken as they are") {
    Experiment e = small_gpt();
    e.parallelism.pp = 2;
    e.parallelism.stage_layers = {1, 3};
    CHECK(chunk_layers(e.workload, e.parallelism) == std::vector{1, 3});
}

// Three layers and both ends on five stages: one item each, so the first and the last have none, as
// they may; a layer less leaves the fourth stage empty, and six stages leave the sixth with -1.
TEST_CASE("every stage between the ends needs a layer") {
    CHECK(laid(3, 5, StageLayout::light_ends) == std::vector{0, 1, 1, 1, 0});
    CHECK(all_hold_layers({0, 1, 1, 1, 0}));
    CHECK_FALSE(all_hold_layers({0, 1, 0, 1, 1}));
    CHECK_FALSE(all_hold_layers({0, 1, 1, -1}));
}
