// Every kernel of a tower's block, from the table of passes above the code. 5 samples of 6
// positions, width 8, inner width 16, 2 heads of 4, two bytes: rows 480 bytes, inner 960, scores 5
// x 2 x 6 x 6 x 2 = 720.

#include <functional>

#include <catch2/catch.hpp>

#include "model/recorded/coca/block_passes.h"
#include "model/recorded/coca/ends.h"
#include "model/recorded/coca/parts.h"
#include "tests/model/block/plan_lines.h"

using namespace stepcast;

namespace {

using Lines = std::vector<std::string>;
struct TowerLines {
    Lines forward, backward;
};

TowerLines lines_of_passes(
    const TowerContext& c, int ranks,
    const std::function<void(const PassWriter&, const TowerContext&)>& plan) {
    TaskGraph graph(ranks, false);
    Planner ahead(graph), behind(graph);
    const BackwardPlanners back{behind, behind};
    plan({&ahead, nullptr}, c);
    plan({nullptr, &back}, c);
    return {lines_of(graph, ahead.take()), lines_of(graph, behind.take())};
}

TowerLines lines_of_block(const TowerBlock& b, bool autocast) {
    Experiment e;
    e.workload.dtype = Dtype::fp16;
    e.runtime.autocast = autocast;
    e.parallelism.micro_batch = 5;
    e.runtime.gradients.fused_accumulation = false;
    return lines_of_passes({e, {}}, 1, [&](const PassWriter& out, const TowerContext& c) {
        plan_tower_block(out, b, c);
    });
}

TowerBlock tower() {
    return {{.layers = 1, .hidden = 8, .heads = 2, .ffn = 16, .seq = 6}, "t", 6, 8};
}

}  // namespace

// Three copies lay out the gradients of three projections; one kernel joins those of a packed
// projection.
TEST_CASE("a block with rotary positions, gate and norms inside") {
    TowerBlock b = tower();
    b.gated = b.rotary = b.sub_norms = b.causal = b.fused_norms = true;
    const TowerLines of = lines_of_block(b, true);
    CHECK(of.forward == Lines{"t_norm1 r480 w480",
                              "t_qkv 30x8x8",
                              "t_qkv 30x8x8",
                              "t_qkv 30x8x8",
                              "t_rotary r7200 w5280 x12",
                              "t_head_layout r480 w480",
                              "t_scale r480 w480",
                              "t_scores 6x6x4 *10 unaligned",
                              "t_mask r720 w720",
                              "t_softmax r2160 w2160 x2",
                              "t_values 6x4x6 *10 unaligned",
                              "t_rows r480 w480",
                              "t_inner_norm r480 w480",
                              "t_output 30x8x8",
                              "t_residual r960 w480",
                              "t_norm2 r480 w480",
                              "t_up 30x16x8",
                              "t_up 30x16x8",
                              "t_activation r960 w960",
                              "t_gate r1920 w960",
                              "t_ffn_norm r960 w960",
                              "t_down 30x8x16",
                              "t_residual r960 w480"});
    CHECK(of.backward == Lines{"t_down 30x16x8",
                               "t_down 8x16x30",
                               "t_bias_gradient r480 w0",
                               "t_ffn_norm_backward r3840 w960 x2",
                               "t_gate_backward r3840 w1920 x2",
                               "t_activation_backward r1920 w960",
                               "t_up 30x8x16",
                               "t_up 16x8x30",
                               "t_bias_gradient r960 w0",
                               "t_up 30x8x16",
                               "t_up 16x8x30",
                               "t_bias_gradient r960 w0",
                               "t_projection_sum r960 w480",
                               "t_norm2_backward r1920 w480 x2",
                               "t_residual_backward r960 w480",
                               "t_output 30x8x8",
                               "t_output 8x8x30",
                               "t_bias_gradient r480 w0",
                               "t_inner_norm_backward r1920 w480 x2",
                               "t_rows_backward r480 w480",
                               "t_values 6x6x4 *10 unaligned",
                               "t_values 6x4x6 *10 unaligned",
                               "t_softmax_backward r3600 w2160 x2",
                               "t_scores 6x4x6 *10 unaligned",
                               "t_scores 6x4x6 *10 unaligned",
                               "t_scale_backward r480 w480",
                               "t_rotary_backward r9120 w8160 x24",
                               "t_head_layout_backward r1440 w1440 x3",
                               "t_qkv 30x8x8",
                               "t_qkv 8x8x30",
                               "t_bias_gradient r480 w0",
                               "t_qkv 30x8x8",
                               "t_qkv 8x8x30",
                               "t_qkv 30x8x8",
                               "t_qkv 8x8x30",
                               "t_bias_gradient r480 w0",
                               "t_projection_sum r1920 w960 x2",
                               "t_norm1_backward r1920 w480 x2",
                               "t_residual_backward r960 w480"});
}

// The framework's norms: with automatic casting they go to fp32 and back, r 1 + 2 + 2, w 2 + 2 + 1;
// backward r 1 + 8 + 2, w 2 + 2 + 1.
TEST_CASE("a plain block, with and without automatic casting") {
    TowerBlock b = tower();
    b.fused_norms = false;
    const TowerLines of = lines_of_block(b, true), whole = lines_of_block(b, false);
    CHECK(of.forward == Lines{"t_norm1 r2400 w2400 x3", "t_qkv 30x24x8",
                              "t_head_layout r1440 w1440 x3", "t_scale r480 w480",
                              "t_scores 6x6x4 *10 unaligned", "t_softmax r2160 w2160 x2",
                              "t_values 6x4x6 *10 unaligned", "t_rows r480 w480", "t_output 30x8x8",
                              "t_residual r960 w480", "t_norm2 r2400 w2400 x3", "t_up 30x16x8",
                              "t_activation r960 w960", "t_down 30x8x16", "t_residual r960 w480"});
    CHECK(of.backward == Lines{"t_down 30x16x8",
                               "t_down 8x16x30",
                               "t_bias_gradient r480 w0",
                               "t_activation_backward r1920 w960",
                               "t_up 30x8x16",
                               "t_up 16x8x30",
                               "t_bias_gradient r960 w0",
                               "t_norm2_backward r5280 w2400 x4",
                               "t_residual_backward r960 w480",
                               "t_output 30x8x8",
                               "t_output 8x8x30",
                               "t_bias_gradient r480 w0",
                               "t_rows_backward r480 w480",
                               "t_values 6x6x4 *10 unaligned",
                               "t_values 6x4x6 *10 unaligned",
                               "t_softmax_backward r3600 w2160 x2",
                               "t_scores 6x4x6 *10 unaligned",
                               "t_scores 6x4x6 *10 unaligned",
                               "t_scale_backward r480 w480",
                               "t_head_layout_backward r1440 w1440",
                               "t_qkv 30x8x24",
                               "t_qkv 24x8x30",
                               "t_bias_gradient r1440 w0",
                               "t_norm1_backward r5280 w2400 x4",
                               "t_residual_backward r960 w480"});
    CHECK(whole.forward[0] == "t_norm1 r480 w480");
    CHECK(whole.forward[5] == "t_softmax r720 w720");
    CHECK(whole.backward[7] == "t_norm2_backward r1920 w480 x2");
    CHECK(whole.backward[15] == "t_softmax_backward r1440 w720");
}

// A pooler with 16 keys of width 12, 80 x 12 x 2 = 1920 bytes, and scores 5 x 2 x 6 x 16 x 2 =
// 1920. Keys and values come from one tensor.
TEST_CASE("a pooler attends to others and ends there") {
    TowerBlock b = tower();
    b.cross = true;
    b.keys = 16;
    b.key_width = 12;
    b.ffn = 0;
    const TowerLines of = lines_of_block(b, false);
    CHECK(of.forward == Lines{"t_key_norm r1920 w1920", "t_query 30x8x8",
                              "t_key_value 80x8x12 unaligned", "t_key_value 80x8x12 unaligned",
                              "t_scale r480 w480", "t_scores 6x16x4 *10", "t_softmax r1920 w1920",
                              "t_values 6x4x16 *10", "t_rows r480 w480", "t_output 30x8x8"});
    CHECK(of.backward == Lines{"t_output 30x8x8",
                               "t_output 8x8x30",
                               "t_bias_gradient r480 w0",
                               "t_rows_backward r480 w480",
                               "t_values 6x16x4 *10",
                               "t_values 16x4x6 *10",
                               "t_softmax_backward r3840 w1920",
                               "t_scores 6x4x16 *10",
                               "t_scores 16x4x6 *10",
                               "t_scale_backward r480 w480",
                               "t_key_value 80x12x8 unaligned",
                               "t_key_value 8x12x80 unaligned",
                               "t_bias_gradient r1280 w0",
                               "t_key_value 80x12x8 unaligned",
                               "t_key_value 8x12x80 unaligned",
                               "t_bias_gradient r1280 w0",
                               "t_projection_sum r3840 w1920",
                               "t_query 30x8x8",
                               "t_query 8x8x30",
                               "t_bias_gradient r480 w0",
                               "t_key_norm_backward r7680 w1920 x2"});
    b.ffn = 16;  // within the decoder: what others read of the keys, too
    const Lines cross = lines_of_block(b, false).backward;
    CHECK(std::count(cross.begin(), cross.end(), "t_key_sum r3840 w1920") == 1);
    CHECK(std::count(cross.begin(), cross.end(), "t_residual_backward r960 w480") == 2);
}

// Patches of 4 pixels are 3 x 16 = 48 wide; 5 x 5 of them x 48 x 2 bytes = 2400; 6 positions of
// width 8. Text: 7 positions of width 8 (560 bytes), 100 words; decoder: 3 positions. Four ranks:
// similarity 5 x 20, features 4 x 5 x 8 x 2 = 320 bytes, scores 5 x 20 x 2 = 200.
TEST_CASE("what stands around the towers, and the two losses") {
    Experiment e;
    Workload& w = e.workload;
    w.dtype = Dtype::fp16;
    w.hidden = 8;
    w.seq = 7;
    w.vocab = 100;
    w.patch = 4;
    w.vision.seq = 6;
    w.vision.hidden = 8;
    w.decoder.seq = 3;
    w.decoder.hidden = 8;
    w.decoder.fused_norms = false;
    e.parallelism.micro_batch = 5;
    e.runtime.gradients.fused_accumulation = false;
    const auto lines = [&](void (*plan)(const PassWriter&, const TowerContext&)) {
        return lines_of_passes({e, Group{.ranks = 4}}, 4, plan);
    };
    CHECK(lines(plan_patches).forward == Lines{"patch_layout r2400 w2400", "patches 25x8x48",
                                               "class_token r480 w480", "positions r480 w480"});
    CHECK(lines(plan_patches).backward == Lines{"positions_gradient r480 w0",
                                                "class_token_backward r480 w480", "patches 8x48x25",
                                                "bias_gradient r480 w0"});
    CHECK(lines(plan_tokens).forward == Lines{"embedding r560 w560", "positions r560 w560"});
    // the table: 1600
    CHECK(lines(plan_tokens).backward ==
          Lines{"positions_gradient r560 w0", "embedding_gradient r1120 w2160 x2"});
    CHECK(lines(plan_text_end).forward ==
          Lines{"text_final_norm r560 w560", "text_projection 5x8x8"});
    CHECK(lines(plan_text_end).backward == Lines{"text_projection 5x8x8", "text_projection 8x8x5",
                                                 "text_sum r1120 w1120 x2",
                                                 "text_final_norm_backward r2240 w560 x2"});
    CHECK(lines(plan_image_end).forward ==
          Lines{"image_final_norm r80 w80", "image_projection 5x8x8"});
    CHECK(lines(plan_image_end).backward == Lines{"image_projection 5x8x8",
                                                  "image_projection 8x8x5",
                                                  "image_final_norm_backward r320 w80 x2"});
    CHECK(lines(plan_caption_head).forward ==
          Lines{"decoder_final_norm r240 w240", "caption_logits 15x100x8 unaligned"});
    CHECK(lines(plan_caption_head).backward == Lines{"caption_logits 15x8x100 unaligned",
                                                     "caption_logits 100x8x15 unaligned",
                                                     "decoder_final_norm_backward r960 w240 x2"});
    CHECK(lines(plan_losses).forward ==
          Lines{"input 1 calls waits", "gather_images all_gather 320",
                "gather_texts all_gather 320", "similarity 5x20x8 unaligned",
                "similarity 5x20x8 unaligned", "contrastive_loss r1200 w1200 x8",
                "caption_loss r3000 w3000 x2"});  // 1500 logits
    CHECK(lines(plan_losses).backward ==
          Lines{"caption_loss_backward r6000 w6000 x2", "contrastive_loss_backward r800 w800 x8",
                "similarity 5x8x20 unaligned", "similarity 20x8x5 unaligned",
                "similarity 5x8x20 unaligned", "similarity 20x8x5 unaligned",
                "scatter_images reduce_scatter 320", "scatter_texts reduce_scatter 320"});
    e.runtime.autocast = true;
    CHECK(lines(plan_losses).forward.back() == "caption_loss r9000 w12000 x3");
    CHECK(lines(plan_losses).backward.front() == "caption_loss_backward r18000 w15000 x3");
    CHECK(lines(plan_caption_head).forward.front() == "decoder_final_norm r1200 w1200 x3");
}
