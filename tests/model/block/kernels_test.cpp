// Every kernel of a block with its numbers, from the formulas above the code. T tokens, A = T x
// hidden, two bytes per element.

#include <algorithm>

#include <catch2/catch.hpp>

#include "model/block/blocks.h"
#include "model/transformer/rank_shape.h"
#include "tests/model/block/listed_block.h"
#include "tests/model/block/small_model.h"

using namespace stepcast;

namespace {

using Lines = std::vector<std::string>;
ListedBlock attention_of(const Experiment& e, KernelStyle style = KernelStyle::fused) {
    return listed_block(e, attention_block(e.workload, rank_shape(e)), style);
}
ListedBlock feed_forward_of(const Experiment& e, KernelStyle style = KernelStyle::fused) {
    return listed_block(e, feed_forward_block(e.workload, rank_shape(e)), style);
}

Experiment model() {
    Experiment e = small_model();
    e.runtime.gradients.fused_accumulation = false;
    return e;
}

Experiment plain() {
    Experiment e = model();
    e.runtime.attention = AttentionKind::plain;
    return e;
}

Experiment step_by_step() {
    Experiment e = plain();
    e.workload.kv_heads = 0;
    e.workload.gated = false;
    e.workload.positions = Positions::learned;
    e.workload.dropout = 0.1;
    e.runtime.kernels = KernelStyle::operations;
    return e;
}

}  // namespace

// Two context ranks: T = 3 x 8, A = 3072 bytes, masks half of that. Queries, keys and values are 64
// + 2 x 32 wide: 6144 bytes. Scores are 3 x 8 x 8 x 16 x 2 = 6144 bytes, of which a causal mask
// leaves half to read. All keys and values: 3 x 16 x 4 x (8 + 8) x 2 = 6144 bytes.
TEST_CASE(
    "plain attention, fused: with biases, dropout, rotary positions and a context over two ranks") {
    Experiment e = plain();
    e.workload.dropout = 0.1;
    e.workload.qkv_bias = e.workload.linear_bias = true;
    e.parallelism.cp = 2;
    e.runtime.context_exchange = ContextExchange::all_gather;
    const ListedBlock of = attention_of(e);
    CHECK(of.forward == Lines{"attention_norm r3072 w3072", "qkv 24x128x64",
                              "rotary r6144 w6144 x3", "cp_all_gather all_gather 6144",
                              "scores 8x16x8 *24", "softmax r3072 w6144",
                              "score_dropout r6144 w9216", "values 8x8x16 *24",
                              "attention_output 24x64x64", "residual r6144 w4608"});
    CHECK(of.backward ==
          Lines{"dropout_backward r4608 w3072", "bias_gradient r3072 w0",
                "attention_output 24x64x64", "attention_output 64x64x24",
                "cp_reduce_scatter reduce_scatter 12288", "values 8x16x8 *24", "values 16x8x8 *24",
                "score_dropout_backward r9216 w6144", "softmax_backward r6144 w6144",
                "scores 8x8x16 *24", "scores 16x8x8 *24", "rotary_backward r4608 w4608 x2",
                "head_layout_backward r6144 w6144", "bias_gradient r6144 w0", "qkv 24x64x128",
                "qkv 128x64x24", "attention_norm_backward r6144 w3072 x2",
                "residual_backward r6144 w3072"});
}

// T = 48: A = 6144, scores 3 x 8 x 16 x 16 x 2 = 12288. With heads of 12 the heads' products leave
// the tensor cores; queries, keys and values are 8 x 12 + 2 x 4 x 12 = 192 wide, the values of the
// heads 96.
TEST_CASE(
    "plain attention, fused: heads laid out anew, all keys seen, and recompute of the scores") {
    Experiment e = plain();
    e.workload.positions = Positions::learned;
    e.workload.causal = false;
    e.workload.head_dim = 12;
    e.parallelism.recompute = Recompute::selective;
    const ListedBlock of = attention_of(e);
    CHECK(of.forward == Lines{"attention_norm r6144 w6144", "qkv 48x192x64",
                              "head_layout r9216 w9216", "scores 16x16x12 *24 fp32",
                              "softmax r12288 w12288", "values 16x12x16 *24 fp32",
                              "attention_output 48x64x96", "residual r12288 w6144"});
    CHECK(of.backward == Lines{"attention_output 48x96x64", "attention_output 64x96x48",
                               "scores 16x16x12 *24 fp32", "softmax r12288 w12288",
                               "values 16x12x16 *24 fp32", "values 16x16x12 *24 fp32",
                               "values 16x12x16 *24 fp32", "softmax_backward r24576 w12288",
                               "scores 16x12x16 *24 fp32", "scores 16x12x16 *24 fp32",
                               "head_layout_backward r18432 w18432", "qkv 48x64x192",
                               "qkv 192x64x48", "attention_norm_backward r12288 w6144 x2",
                               "residual_backward r12288 w6144"});
}

// Each rank's 8 of 16 queries see half of the keys. Keys and values are gathered beside the
// products.
TEST_CASE("one kernel for attention sees half of the keys on each of two ranks of a context") {
    Experiment e = model();
    e.parallelism.cp = 2;
    const ListedBlock of = attention_of(e);
    CHECK(of.forward == Lines{"attention_norm r3072 w3072", "qkv 24x128x64",
                              "rotary r6144 w6144 x3", "cp_all_gather all_gather 6144",
                              "attention 3 sequences 8 heads 8x8 widths 8 8",
                              "attention_output 24x64x64", "residual r6144 w3072"});
    CHECK(of.backward[3] == "attention_backward 3 sequences 8 heads 8x8 widths 8 8 backward x2");
    e.workload.causal = false;
    CHECK(attention_of(e).forward[4] == "attention 3 sequences 8 heads 8x16 widths 8 8");
    e.workload.causal = true;
    e.parallelism.cp = 1;
    CHECK(attention_of(e).forward[3] == "attention 3 sequences 8 heads 16x16 widths 8 8 causal");
}

// The forward's lines, exchange included, before those of the backward.
TEST_CASE("selective recompute runs one kernel and its exchange again") {
    Experiment e = model();
    const Lines before = attention_of(e).backward;
    e.parallelism.recompute = Recompute::selective;
    const ListedBlock of = attention_of(e);
    Lines expected = before;
    expected.insert(expected.begin() + 2, of.forward[3]);
    CHECK(of.forward[3] == "attention 3 sequences 8 heads 16x16 widths 8 8 causal");
    CHECK(of.backward == expected);
    e.parallelism.cp = 2;
    for (const ContextExchange how : {ContextExchange::all_gather, ContextExchange::ring}) {
        e.runtime.context_exchange = how;
        const Lines lines = attention_of(e).backward;
        const std::string one = "attention 3 sequences 8 heads 8x8 widths 8 8";
        CHECK(Lines(lines.begin() + 2, lines.begin() + 6) ==
              Lines{"cp_all_gather all_gather 6144", one, "cp_reduce_scatter reduce_scatter 12288",
                    "attention_backward" + one.substr(9) + " backward x2"});
    }
}

// Latents of 24 and 16, heads of 8 + 4, values of 6. The layout reads queries, 8 x 12 x 48 x 2 =
// 9216 bytes, the keys' own part and the shared rotary key, (8 x 8 + 4) x 96 = 6528, and values, 48
// x 96 = 4608; it writes queries, keys of the same width, and values.
TEST_CASE("latent attention: projections, norms of latents and the layout of heads") {
    Experiment e = model();
    e.workload.kv_heads = 0;
    e.workload.mla = {.q_rank = 24, .kv_rank = 16, .nope_dim = 8, .rope_dim = 4, .value_dim = 6};
    const ListedBlock of = attention_of(e);
    CHECK(of.forward == Lines{"attention_norm r6144 w6144", "mla_down 48x44x64 unaligned",
                              "latent_norm r3840 w3840 x2", "mla_query_up 48x96x24",
                              "mla_key_value_up 48x112x16", "rotary r20352 w23040 x6",
                              "attention 3 sequences 8 heads 16x16 widths 12 6 causal",
                              "attention_output 48x64x48", "residual r12288 w6144"});
    CHECK(of.backward ==
          Lines{"attention_output 48x48x64", "attention_output 64x48x48",
                "attention_backward 3 sequences 8 heads 16x16 widths 12 6 causal backward x2",
                "rotary r20352 w23040 x6", "mla_key_value_up 48x16x112",
                "mla_key_value_up 112x16x48", "mla_query_up 48x24x96", "mla_query_up 96x24x48",
                "latent_norm_backward r7680 w3840 x2", "mla_down 48x64x44 unaligned",
                "mla_down 44x64x48 unaligned", "attention_norm_backward r12288 w6144 x2",
                "residual_backward r12288 w6144"});
    e.workload.mla.q_rank = 0;
    CHECK(attention_of(e).forward[3] == "mla_query_up 48x96x64");
}

// T = 3 x 86 = 258 tokens are three chunks of 128. Gate and input 128 each, B and C 8 x 16 each, 16
// steps: 528; the convolution covers 384.
TEST_CASE("a Mamba-2 block: chunks, groups and heads") {
    Experiment e = model();
    e.workload.seq = 86;
    e.workload.mamba = {.heads = 16, .head_dim = 8, .state = 16, .groups = 8, .attention = 0};
    const ListedBlock of = listed_block(e, mamba_block(e.workload, rank_shape(e)));
    CHECK(of.forward ==
          Lines{"mamba_norm r33024 w33024", "mamba_in 258x528x64", "convolution r198144 w198144",
                "scan_scores 128x128x16 *24", "scan_inside 128x8x128 *48",
                "scan_states 8x16x128 *48", "scan_between 128x8x16 *48", "scan r396288 w132096",
                "gated_norm r132096 w66048", "mamba_out 258x64x128", "residual r66048 w33024"});
    CHECK(of.backward == Lines{"mamba_out 258x128x64", "mamba_out 64x128x258",
                               "gated_norm_backward r198144 w132096 x2",
                               "scan_scores 128x128x16 *24", "scan_inside 128x8x128 *48",
                               "scan_states 8x16x128 *48", "scan_between 128x8x16 *48",
                               "scan_scores 128x128x16 *24", "scan_inside 128x8x128 *48",
                               "scan_states 8x16x128 *48", "scan_between 128x8x16 *48",
                               "scan_backward r924672 w396288 x4",
                               "convolution_backward r396288 w198144 x2", "mamba_in 258x64x528",
                               "mamba_in 528x64x258", "mamba_norm_backward r66048 w33024 x2",
                               "residual_backward r66048 w33024"});
    // A quarter of the heads attend, but at least one.
    e.workload.mamba.attention = 0.25;
    const Block mixed = mixing_block(e.workload, rank_shape(e));
    const auto attends = [](const Block& block) {
        for (const Operator& op : block)
            if (const auto* attend = std::get_if<Attend>(&op)) return *attend;
        return Attend{};
    };
    CHECK(attends(mixed) == Attend{2, 1});
    e.workload.mamba.attention = 0.01;
    CHECK(attends(mixing_block(e.workload, rank_shape(e))) == Attend{1, 1});
    CHECK(mixing_blocks(e.workload, rank_shape(e))[1].share == 0.01);
    e.workload.mamba.attention = 0;
    CHECK(attends(mixing_block(e.workload, rank_shape(e))) == Attend{});
    CHECK(mixing_blocks(e.workload, rank_shape(e)).size() == 1);
}

// T = 258 tokens in 3 sequences of 86 are 3 x 2 chunks of 64 for each of 4 value heads: 24. Queries
// and keys are 2 x 2 x 16 wide, values 4 x 8: the convolution covers 96, a gate of 32 and two
// numbers a value head come with them: 136. Gates read 2 x 4 numbers a token and write decays in
// four bytes, step sizes in two: 3 x 4. The sum of the keys' gradients reads and writes 4 x 16.
TEST_CASE("a gated delta net: the products of each of its kernels") {
    Experiment e = model();
    e.workload.seq = 86;
    e.workload.delta = {.value_heads = 4, .key_heads = 2, .key_dim = 16, .value_dim = 8};
    const ListedBlock of = listed_block(e, delta_block(e.workload, rank_shape(e)));
    CHECK(of.forward == Lines{"delta_norm r33024 w33024", "delta_in 258x136x64",
                              "convolution r49536 w49536", "delta_gates r4128 w6192",
                              "delta_norms r33024 w33024 x2", "delta_system 64x64x16 *24",
                              "delta_corrections 64x16x64 *24", "delta_corrections 64x8x64 *24",
                              "delta_states 64x8x16 *24", "delta_states 16x8x64 *24",
                              "delta_output 64x8x16 *24", "delta_output 64x64x16 *24",
                              "delta_output 64x8x64 *24", "gated_norm r33024 w16512",
                              "delta_out 258x64x32", "residual r66048 w33024"});
    CHECK(of.backward == Lines{"delta_out 258x32x64",
                               "delta_out 64x32x258",
                               "gated_norm_backward r49536 w33024 x2",
                               "delta_corrections 64x16x64 *24",
                               "delta_corrections 64x8x64 *24",
                               "delta_states 64x8x16 *24",
                               "delta_states 16x8x64 *24",
                               "delta_values_backward 64x64x16 *24",
                               "delta_values_backward 64x8x64 *24",
                               "delta_states_backward 64x8x16 *24",
                               "delta_states_backward 16x8x64 *48",
                               "delta_output_backward 64x64x8 *24",
                               "delta_output_backward 64x16x8 *72",
                               "delta_output_backward 64x16x64 *48",
                               "delta_corrections_backward 64x64x16 *48",
                               "delta_corrections_backward 64x64x8 *24",
                               "delta_corrections_backward 64x64x64 *48",
                               "delta_corrections_backward 64x16x64 *72",
                               "delta_corrections_backward 64x8x64 *24",
                               "delta_key_sum r66048 w33024",
                               "delta_norms_backward r66048 w33024 x2",
                               "delta_gates_backward r10320 w4128 x2",
                               "convolution_backward r99072 w49536 x2",
                               "delta_in 258x64x136",
                               "delta_in 136x64x258",
                               "delta_norm_backward r66048 w33024 x2",
                               "residual_backward r66048 w33024"});
    // As transformers has them: step sizes and decays of a product by themselves.
    e.runtime.fused_projections = false;
    const ListedBlock apart = listed_block(e, delta_block(e.workload, rank_shape(e)));
    CHECK(apart.forward[1] == "delta_in 258x128x64");
    CHECK(apart.forward[2] == "delta_gates_in 258x8x64");
    // Two tensor-parallel ranks have half of the heads each and sum their results.
    e.runtime.fused_projections = true;
    e.parallelism.tp = 2;
    const ListedBlock half = listed_block(e, delta_block(e.workload, rank_shape(e)));
    CHECK(half.forward[1] == "delta_in 258x68x64 unaligned");
    CHECK(half.forward[5] == "delta_system 64x64x16 *12");
    CHECK(half.forward[14] == "delta_out 258x64x16");
    CHECK(half.forward[15] == "tp_all_reduce all_reduce 33024");
}

// An indexer of 4 heads of 6 selects 5 of 16 tokens; latents of 24 and 16, heads of 8 + 4 and 6. Of
// each head's query the positionless part meets the keys' weights, so that a query is 16 + 4 wide,
// a key the latent with its 4, a value the latent. 48 tokens: the layout moves (8 + 1) x 20 x 96 =
// 17280 bytes. The indexer rotates 5 x 6 numbers twice: 48 x 60 x 2 = 5760 bytes; its scores are
// summed in fp32, 48 x 16 / 2 x 4 = 1536 bytes, and 48 x 5 x 4 = 960 say which are selected.
// Queries have 1 + 2 + 3 + 4 + 12 x 5 keys, a mean of 4.4; the loss makes attention's scores at
// these again.
TEST_CASE("sparse attention: the indexer, its loss, and attention to latents at selected keys") {
    Experiment e = model();
    e.workload.kv_heads = 0;
    e.workload.mla = {.q_rank = 24, .kv_rank = 16, .nope_dim = 8, .rope_dim = 4, .value_dim = 6};
    e.workload.indexer = {.heads = 4, .head_dim = 6, .top_k = 5};
    const ListedBlock of = attention_of(e);
    CHECK(of.forward == Lines{"attention_norm r6144 w6144", "mla_down 48x44x64 unaligned",
                              "latent_norm r3840 w3840 x2", "mla_query_up 48x96x24",
                              "mla_key_value_up 48x112x16", "indexer_query 48x24x24",
                              "indexer_key 48x6x64 unaligned", "indexer_weights 48x4x64 unaligned",
                              "indexer_norm r576 w576", "indexer_rotation r5760 w5760",
                              "indexer_scores 3 sequences 4 heads 16x16 widths 3 3 causal",
                              "indexer_selection r1536 w2496 x2",
                              "indexer_target 3 sequences 8 heads 16x4 widths 10 10",
                              "indexer_loss r1920 w960 x4", "rotary r17280 w17280 x4",
                              "attention 3 sequences 8 heads 16x4 widths 20 16",
                              "attention_output 48x64x48", "residual r12288 w6144"});
    // No gradient leaves the indexer: its products have those of their weights only.
    CHECK(of.backward ==
          Lines{"attention_output 48x48x64", "attention_output 64x48x48",
                "attention_backward 3 sequences 8 heads 16x4 widths 20 16 backward x2",
                "rotary r17280 w17280 x4",
                "indexer_scores_backward 3 sequences 4 heads 16x4 widths 3 3 backward x2",
                "indexer_rotation_backward r11520 w5760 x2", "indexer_norm_backward r1152 w576 x2",
                "indexer_weights 4x64x48 unaligned", "indexer_key 6x64x48 unaligned",
                "indexer_query 24x24x48", "mla_key_value_up 48x16x112",
                "mla_key_value_up 112x16x48", "mla_query_up 48x24x96", "mla_query_up 96x24x48",
                "latent_norm_backward r7680 w3840 x2", "mla_down 48x64x44 unaligned",
                "mla_down 44x64x48 unaligned", "attention_norm_backward r12288 w6144 x2",
                "residual_backward r12288 w6144"});
    // A sequence that is selected whole is read as by latent attention.
    e.workload.indexer.top_k = 16;
    CHECK(attention_of(e).forward[12] ==
          "indexer_target 3 sequences 8 heads 16x16 widths 6 6 causal");
    CHECK(attention_of(e).forward[15] == "attention 3 sequences 8 heads 16x16 widths 12 6 causal");
    // Each rank scores all tokens; the probabilities of its own heads are summed over the ranks.
    e.workload.indexer.top_k = 5;
    e.parallelism.tp = 2;
    e.parallelism.sequence_parallel = true;
    const Lines split = attention_of(e).forward;
    const auto index = [&](std::string_view name) {
        return std::ranges::find_if(split,
                                    [&](const std::string& l) { return l.starts_with(name); }) -
               split.begin();
    };
    CHECK(split[static_cast<std::size_t>(index("indexer_query"))] == "indexer_query 48x24x24");
    CHECK(split[static_cast<std::size_t>(index("indexer_query")) - 1] ==
          "tp_all_gather all_gather 2304");
    CHECK(split[static_cast<std::size_t>(index("indexer_key")) - 1] ==
          "tp_all_gather all_gather 6144");
    CHECK(split[static_cast<std::size_t>(index("indexer_target")) + 1] ==
          "tp_all_reduce all_reduce 960");
}

// Inner width 128: 48 x 128 x 2 = 12288 bytes. With two micro-batches gradients of 2 bytes, 128 x
// 64 or 256 x 64, are added to fp32.
TEST_CASE("a gated feed-forward block with biases, whose gradients are added up") {
    Experiment e = model();
    e.workload.linear_bias = true;
    e.parallelism.global_batch = 6;
    const ListedBlock of = feed_forward_of(e);
    CHECK(of.forward == Lines{"ffn_norm r6144 w6144", "ffn_up 48x256x64",
                              "activation r24576 w12288", "ffn_down 48x64x128",
                              "residual r12288 w6144"});
    CHECK(of.backward ==
          Lines{"bias_gradient r6144 w0", "ffn_down 48x128x64", "ffn_down 64x128x48",
                "accumulate_gradient r49152 w32768 long", "activation_backward r36864 w24576",
                "bias_gradient r24576 w0", "ffn_up 48x64x256", "ffn_up 256x64x48",
                "accumulate_gradient r98304 w65536 long", "ffn_norm_backward r12288 w6144 x2",
                "residual_backward r12288 w6144"});
    e.runtime.gradients.fused_accumulation = true;
    CHECK(feed_forward_of(e).backward[2] == "ffn_down 64x128x48 accumulate");
    CHECK(feed_forward_of(e).backward[3] == "activation_backward r36864 w24576");
    e.runtime.gradients.type = GradientType::bf16;
    CHECK(feed_forward_of(e).backward[2] == "ffn_down 64x128x48");
    e.runtime.gradients.fused_accumulation = false;
    CHECK(feed_forward_of(e).backward[3] == "accumulate_gradient r32768 w16384 long");
    e.parallelism.zero = 3;  // one replica holds all of them, each of four a quarter
    CHECK(feed_forward_of(e).backward[3] == "accumulate_gradient r32768 w16384 long");
    e.parallelism.dp = 4;
    e.parallelism.global_batch = 24;
    CHECK(feed_forward_of(e).backward[3] == "accumulate_gradient r8192 w4096 long");
    e.parallelism.zero = 1;
    CHECK(feed_forward_of(e).backward[3] == "accumulate_gradient r32768 w16384 long");
    e.parallelism.zero = 3;
    e.parallelism.shard = 2;
    CHECK(feed_forward_of(e).backward[3] == "accumulate_gradient r16384 w8192 long");
}

// In fp8 the input of a product is cast (2 bytes read; 1 byte written twice, by rows and by
// columns), unless the norm before it did that. So is each incoming gradient.
TEST_CASE("products in fp8 cast what they read, but behind a norm") {
    Experiment e = model();
    e.workload.dtype = Dtype::fp8;
    const ListedBlock of = feed_forward_of(e);
    CHECK(of.forward == Lines{"ffn_norm r6144 w6144", "ffn_up 48x256x64",
                              "activation r24576 w12288", "cast r12288 w12288",
                              "ffn_down 48x64x128", "residual r12288 w6144"});
    CHECK(of.backward == Lines{"cast r6144 w6144", "ffn_down 48x128x64", "ffn_down 64x128x48",
                               "activation_backward r36864 w24576", "cast r24576 w24576",
                               "ffn_up 48x64x256", "ffn_up 256x64x48",
                               "ffn_norm_backward r12288 w6144 x2",
                               "residual_backward r12288 w6144"});
}

// Two tensor-parallel ranks have an inner width of 64 each, 128 with the gate. A collective moves
// 48 x 64 x 2 bytes. With sequence parallelism norms and residuals see 24 tokens.
TEST_CASE("a split feed-forward block and its collectives, with and without sequence parallelism") {
    Experiment e = model();
    e.parallelism.tp = 2;
    ListedBlock of = feed_forward_of(e);
    CHECK(of.forward == Lines{"ffn_norm r6144 w6144", "ffn_up 48x128x64", "activation r12288 w6144",
                              "ffn_down 48x64x64", "tp_all_reduce all_reduce 6144",
                              "residual r12288 w6144"});
    CHECK(of.backward ==
          Lines{"ffn_down 48x64x64", "ffn_down 64x64x48", "activation_backward r18432 w12288",
                "ffn_up 48x64x128", "tp_all_reduce all_reduce 6144", "ffn_up 128x64x48",
                "ffn_norm_backward r12288 w6144 x2", "residual_backward r12288 w6144"});
    e.parallelism.sequence_parallel = true;
    of = feed_forward_of(e);
    CHECK(of.forward == Lines{"ffn_norm r3072 w3072", "tp_all_gather all_gather 6144",
                              "ffn_up 48x128x64", "activation r12288 w6144", "ffn_down 48x64x64",
                              "tp_reduce_scatter reduce_scatter 6144", "residual r6144 w3072"});
    CHECK(of.backward ==
          Lines{"tp_all_gather all_gather 6144", "ffn_down 48x64x64", "ffn_down 64x64x48",
                "activation_backward r18432 w12288", "tp_all_gather all_gather 6144",
                "ffn_up 48x64x128", "tp_reduce_scatter reduce_scatter 6144", "ffn_up 128x64x48",
                "ffn_norm_backward r6144 w3072 x2", "residual_backward r6144 w3072"});
    e.runtime.exchanges.tensor = TensorOverlap::always;  // the result is sent beside the product
    of = feed_forward_of(e);
    CHECK(of.forward[4] == "tp_reduce_scatter reduce_scatter 6144");
    CHECK(of.forward[5] == "ffn_down 48x64x64");
}

// 48 x 64 values: 3072 bytes in fp8, 1536 in fp4. Sums, here of the same width, stay in 16 bits:
// 6144. Casts of rows, which torchao makes behind the gather, leave it in 16 bits.
TEST_CASE("gathers move the type of the products that read them, sums 16 bits") {
    Experiment e = model();
    e.parallelism.tp = 2;
    e.parallelism.sequence_parallel = true;
    const auto collectives = [&](Dtype dtype) {
        e.workload.dtype = dtype;
        const ListedBlock of = feed_forward_of(e);
        Lines found;
        for (const Lines* lines : {&of.forward, &of.backward})
            for (const std::string& line : *lines)
                if (line.starts_with("tp_")) found.push_back(line.substr(line.find(' ') + 1));
        return found;
    };
    const auto with = [](const std::string& bytes) {
        const std::string gather = "all_gather " + bytes, sum = "reduce_scatter 6144";
        return Lines{gather, sum, gather, gather, sum};
    };
    CHECK(collectives(Dtype::bf16) == with("6144"));
    CHECK(collectives(Dtype::fp8) == with("3072"));
    CHECK(collectives(Dtype::fp4) == with("1536"));
    e.runtime.row_scales = true;
    CHECK(collectives(Dtype::fp8) == with("6144"));
}

// Adapters of rank 4 beside frozen weights: x A is 48 x 4, (x A) B is 48 x 128, and the sum reads
// both results. The layer's own weights have no gradient.
TEST_CASE("adapters stand beside frozen products") {
    Experiment e = model();
    e.workload.adapter_rank = 4;
    const ListedBlock of = attention_of(e);
    CHECK(Lines(of.forward.begin() + 1, of.forward.begin() + 5) ==
          Lines{"qkv 48x128x64", "adapter_in 48x4x64 unaligned", "adapter_out 48x128x4 unaligned",
                "adapter_sum r24576 w12288"});
    e.workload.adapter_rank = 8;
    for (const Lines& lines : {attention_of(e).forward, attention_of(e).backward})
        CHECK(std::ranges::none_of(
            lines, [](const std::string& line) { return line.ends_with("unaligned"); }));
    CHECK(Lines(of.backward.begin(), of.backward.begin() + 6) ==
          Lines{"attention_output 48x64x64", "adapter_out 64x4x48 unaligned",
                "adapter_out 48x4x64 unaligned", "adapter_in 4x64x48 unaligned",
                "adapter_in 48x64x4 unaligned", "adapter_sum_backward r12288 w6144"});
}

// 4 bits and an fp32 scale for each 64 weights are 0.5625 B: of 128 x 64 weights 4,608 B are read
// and 16,384 B written before the product, of 64 x 64 half as much before the gradient of its
// input.
TEST_CASE("frozen weights in four bits become 16-bit ones before every product") {
    Experiment e = model();
    e.workload.adapter_rank = 8;
    e.workload.frozen = FrozenWeights::nf4;
    const ListedBlock of = attention_of(e);
    CHECK(Lines(of.forward.begin() + 1, of.forward.begin() + 3) ==
          Lines{"dequantize r4608 w16384", "qkv 48x128x64"});
    CHECK(Lines(of.backward.begin(), of.backward.begin() + 2) ==
          Lines{"dequantize r2304 w8192", "attention_output 48x64x64"});
    e.workload.adapter_rank = 0;
    CHECK(attention_of(e).forward[1] == "qkv 48x128x64");
}

// Keys and values are 48 x 32 each. On all linear layers the gate, up and down products have
// adapters too; a router has none.
TEST_CASE("adapters stand beside separate projections, and beside all linear layers if asked") {
    Experiment e = model();
    e.workload.adapter_rank = 8;
    e.runtime.fused_projections = false;
    const auto adapted = [](const Lines& lines) {
        Lines found;
        std::ranges::copy_if(lines, std::back_inserter(found), [](const std::string& line) {
            return line.starts_with("adapter_out");
        });
        return found;
    };
    const Lines attention{"adapter_out 48x64x8", "adapter_out 48x32x8", "adapter_out 48x32x8",
                          "adapter_out 48x64x8"};
    CHECK(adapted(attention_of(e).forward) == attention);
    CHECK(std::ranges::count(attention_of(e).backward, "adapter_sum_backward r12288 w6144") == 4);
    CHECK(adapted(feed_forward_of(e).forward).empty());
    e.workload.adapter_on = Adapted::linear;
    CHECK(adapted(attention_of(e).forward) == attention);
    CHECK(adapted(feed_forward_of(e).forward).size() == 3);
    e.workload.moe.experts = 4;
    e.workload.moe.shared_experts = 1;
    e.runtime.fused_projections = true;
    // up and down of the shared expert
    CHECK(adapted(listed_block(e, expert_block(e.workload, rank_shape(e))).forward).size() == 2);
    CHECK(adapted(listed_block(e, prediction_block(e.workload, rank_shape(e))).forward).empty());
}

// 48000 logits: the fused forward reads them twice and an exponential, 6 bytes, and writes it (4);
// the backward reads that and writes the gradients. With three slices each slice's gradient of the
// whole is zeroed and written (4 x 96000), and two sums read two and write one.
TEST_CASE("the ends of a model") {
    Experiment e = model();
    Workload& w = e.workload;
    w.positions = Positions::learned;
    w.dropout = 0.1;
    const auto head = [&] { return listed_block(e, head_block(w, rank_shape(e))); };
    CHECK(head().forward ==
          Lines{"final_norm r6144 w6144", "logits 48x1000x64", "loss r288000 w192000 long x4"});
    CHECK(head().backward == Lines{"loss_backward r192000 w96000 long x2", "logits 48x64x1000",
                                   "logits 1000x64x48", "final_norm_backward r12288 w6144 x2",
                                   "residual_backward r12288 w6144"});
    e.runtime.loss.pieces = 3;
    CHECK(head().backward[1] == "loss_slices r96000 w384000 long x6");
    CHECK(head().backward[2] == "loss_slices r384000 w192000 long x2");
    e.runtime.loss.in_forward = false;
    CHECK(head().forward.size() == 2);
    CHECK(head().backward[0] == "loss r288000 w192000 long x4");
    e.runtime.loss.fused = false;
    CHECK(head().backward[0] == "loss r864000 w576000 long x12");
    CHECK(head().backward[1] == "loss_backward r384000 w288000 long x4");
    const ListedBlock ends = listed_block(e, embedding_block());
    CHECK(ends.forward ==
          Lines{"embedding r6144 w6144", "positions r12288 w6144", "dropout r6144 w9216"});
    // 64000 x 6 bytes and 2 or 1 A
    CHECK(ends.backward ==
          Lines{"dropout_backward r9216 w6144", "embedding_gradient r396288 w390144 long x4"});
    // Logits from four slices of the table of 128000 bytes: four times a whole is zeroed and a
    // slice's rows copied; five gradients are summed.
    w.table_slices = 4;
    const Lines sliced = listed_block(e, embedding_block()).backward;
    CHECK(Lines(sliced.begin() + 2, sliced.end()) ==
          Lines{"table_slices r128000 w640000 long x8", "table_slices r1024000 w512000 long x4"});
    w.table_slices = 1;
    e.parallelism.tp = 2;
    e.runtime.loss.in_forward = true;
    const Lines split = head().forward;
    CHECK(Lines(split.begin() + 2, split.end()) ==
          Lines{"loss r432000 w288000 long x12", "loss_all_reduce all_reduce 192",
                "loss_all_reduce all_reduce 192", "loss_all_reduce all_reduce 192"});
    CHECK(listed_block(e, embedding_block()).forward[1] == "tp_all_reduce all_reduce 6144");
    e.parallelism.sequence_parallel = true;
    CHECK(listed_block(e, embedding_block()).forward[1] == "tp_reduce_scatter reduce_scatter 6144");
    CHECK(listed_block(e, embedding_block()).backward[1] == "tp_all_gather all_gather 6144");
    w.adapter_rank = 4;  // the table is frozen
    CHECK(listed_block(e, embedding_block()).backward.size() == 2);
}

// 1000 words are 15.6 times 64, rounded up 16; 48 / 16 = 3 rows, 4 as a power of two: 12 chunks of
// 4 rows, 4000 logits of 2 bytes each. A chunk's logits are read twice and their gradient is
// written; the weight's gradient of 64000 elements, which a product has written, is read once more
// for the sum. The backward multiplies both gradients, 48 x 64 + 64000 elements, by the loss's.
// Frozen weights have none. Recomputed logits are multiplied once more, before the product's
// gradients.
TEST_CASE("a loss makes logits in chunks with their gradients, or twice") {
    Experiment e = model();
    const auto head = [&] { return listed_block(e, head_block(e.workload, rank_shape(e))); };
    e.runtime.loss.logits = LogitsKept::chunks;
    const Lines chunks = head().forward;
    REQUIRE(chunks.size() == 1 + 12 * 5);
    CHECK(Lines(chunks.begin() + 1, chunks.begin() + 6) ==
          Lines{"logits 4x1000x64", "loss r16000 w8000 long", "logits 4x64x1000",
                "logits 1000x64x4", "loss_sum r128000 w0 long"});
    CHECK(head().backward[0] == "loss_backward r134144 w134144 long x2");
    CHECK(head().backward[1] == "final_norm_backward r12288 w6144 x2");
    e.workload.adapter_rank = 4;
    CHECK(head().forward.size() == 1 + 12 * 3);
    CHECK(head().backward[0] == "loss_backward r6144 w6144 long");
    e.workload.adapter_rank = 0;
    e.runtime.loss.logits = LogitsKept::recomputed;
    CHECK(head().forward == Lines{"final_norm r6144 w6144", "logits 48x1000x64"});
    const Lines back = head().backward;
    CHECK(Lines(back.begin(), back.begin() + 3) ==
          Lines{"logits 48x1000x64", "logits 48x64x1000", "logits 1000x64x48"});
}

// Automatic casting: norms, residuals and softmax in 4 bytes, products in 2; a weight is cast once.
// A tensor has a = 3072 elements, the scores s = 6144. Causal scores are masked before they are
// cast to 4 bytes.
TEST_CASE("attention operation by operation under automatic casting, causal and not") {
    Experiment e = step_by_step();
    e.runtime.autocast = true;
    e.workload.qkv_bias = e.workload.linear_bias = true;
    const ListedBlock of = attention_of(e, KernelStyle::operations);
    CHECK(of.forward ==
          Lines{"attention_norm r12288 w12288", "cast r12288 w6144", "cast r49152 w24576",
                "qkv 48x192x64", "head_layout r18432 w18432 x3", "scores 16x16x8 *24",
                "scale r12288 w12288", "mask r12288 w12288", "softmax r12288 w24576",
                "cast r24576 w12288", "score_dropout r12288 w18432", "values 16x8x16 *24",
                "head_layout r6144 w6144", "cast r16384 w8192", "attention_output 48x64x64",
                "dropout r6144 w9216", "residual r18432 w12288"});
    CHECK(of.backward == Lines{"cast r12288 w6144",
                               "dropout_backward r9216 w6144",
                               "attention_output 48x64x64",
                               "attention_output 64x64x48",
                               "cast r8192 w16384",
                               "bias_gradient r6144 w0",
                               "head_layout_backward r6144 w6144",
                               "values 16x16x8 *24",
                               "values 16x8x16 *24",
                               "score_dropout_backward r18432 w12288",
                               "cast r12288 w24576",
                               "softmax_backward r49152 w12288",
                               "mask_backward r12288 w12288",
                               "scale_backward r12288 w12288",
                               "scores 16x8x16 *24",
                               "scores 16x8x16 *24",
                               "head_layout_backward r36864 w36864 x4",
                               "qkv 48x64x192",
                               "qkv 192x64x48",
                               "cast r24576 w49152",
                               "bias_gradient r18432 w0",
                               "cast r6144 w12288",
                               "attention_norm_backward r49152 w12288 x2",
                               "residual_backward r24576 w12288"});
    e.workload.causal = false;
    const ListedBlock whole = attention_of(e, KernelStyle::operations);
    CHECK(Lines(whole.forward.begin() + 6, whole.forward.begin() + 11) ==
          Lines{"scale r12288 w12288", "mask r12288 w24576", "softmax r24576 w24576",
                "score_dropout r24576 w30720", "cast r24576 w12288"});
    CHECK(Lines(whole.backward.begin() + 9, whole.backward.begin() + 14) ==
          Lines{"cast r12288 w24576", "score_dropout_backward r30720 w24576",
                "softmax_backward r49152 w24576", "cast r24576 w12288",
                "scale_backward r12288 w12288"});
}

// i = 6144 inner elements, with (bytes read, written) for each: half of x (2, 2); x cast; cube and
// factor (8, 8); sum (6, 4); factor, tanh, plus one (12, 12); product (6, 4); cast back.
TEST_CASE("an activation step by step, with dropout inside the block") {
    Experiment e = step_by_step();
    e.runtime.autocast = true;
    e.workload.activation = Activation::gelu_steps;
    e.workload.inner_dropout = true;
    ListedBlock of = feed_forward_of(e, KernelStyle::operations);
    CHECK(Lines(of.forward.begin() + 4, of.forward.end() - 4) ==
          Lines{"activation r12288 w12288", "cast r12288 w24576", "activation r49152 w49152 x2",
                "activation r36864 w24576", "activation r73728 w73728 x3",
                "activation r36864 w24576", "cast r24576 w12288", "dropout r12288 w18432"});
    CHECK(Lines(of.backward.begin() + 5, of.backward.begin() + 15) ==
          Lines{"dropout_backward r18432 w12288", "cast r12288 w24576",
                "activation_backward r86016 w49152 x2", "cast r24576 w12288",
                "activation_backward r49152 w24576", "activation_backward r24576 w24576",
                "cast r24576 w12288", "activation_backward r122880 w98304 x4", "cast r24576 w12288",
                "activation_backward r61440 w36864 x3"});
    e.workload.activation = Activation::gelu;
    e.workload.inner_dropout = e.runtime.autocast = false;
    of = feed_forward_of(e, KernelStyle::operations);
    CHECK(of.forward == Lines{"ffn_norm r6144 w6144", "ffn_up 48x128x64",
                              "activation r12288 w12288", "ffn_down 48x64x128",
                              "dropout r6144 w9216", "residual r12288 w6144"});
    CHECK(of.backward ==
          Lines{"dropout_backward r9216 w6144", "ffn_down 48x128x64", "ffn_down 64x128x48",
                "activation_backward r24576 w12288", "ffn_up 48x64x128", "ffn_up 128x64x48",
                "ffn_norm_backward r24576 w6144 x2", "residual_backward r12288 w6144"});
    // Two scores per token in two bytes.
    e.workload.head = Head::span;
    of = listed_block(e, head_block(e.workload, rank_shape(e)), KernelStyle::operations);
    CHECK(of.forward == Lines{"span 48x2x64 unaligned", "loss r192 w192 x12"});
    CHECK(of.backward == Lines{"loss_backward r384 w192 x12", "span 48x64x2 unaligned",
                               "span 2x64x48 unaligned", "bias_gradient r192 w0"});
}

// 8 remembered tokens before 16: L = 24 keys, 72 projected tokens, 4608 key elements, s = 3 x 8 x
// 16 x 24 = 9216 scores.
TEST_CASE("attention with memory and relative positions, operation by operation") {
    Experiment e = step_by_step();
    e.workload.positions = Positions::relative;
    e.workload.memory = 8;
    const ListedBlock of = attention_of(e, KernelStyle::operations);
    CHECK(of.forward ==
          Lines{"memory r9216 w9216", "qkv 72x192x64", "position_projection 24x64x64",
                "position_bias r12288 w12288 x2", "head_layout r18432 w18432 x2",
                "scores 16x24x8 *24", "position_scores 16x24x8 *24", "shift r18432 w18432",
                "sum r36864 w18432", "scale r18432 w18432", "mask r18432 w18432",
                "softmax r18432 w18432", "score_dropout r18432 w27648", "values 16x8x24 *24",
                "head_layout r6144 w6144", "attention_output 48x64x64", "dropout r6144 w9216",
                "residual r12288 w6144", "attention_norm r6144 w6144"});
    CHECK(of.backward == Lines{"attention_norm_backward r24576 w6144 x2",
                               "dropout_backward r9216 w6144",
                               "attention_output 48x64x64",
                               "attention_output 64x64x48",
                               "head_layout_backward r6144 w6144",
                               "values 16x24x8 *24",
                               "values 24x8x16 *24",
                               "score_dropout_backward r27648 w18432",
                               "softmax_backward r36864 w18432",
                               "mask_backward r18432 w18432",
                               "scale_backward r18432 w18432",
                               "shift_backward r36864 w55296 x3",
                               "scores 16x8x24 *24",
                               "scores 24x8x16 *24",
                               "position_scores 16x8x24 *24",
                               "position_scores 24x8x16 *24",
                               "position_bias_backward r24576 w6144 x3",
                               "head_layout_backward r55296 w55296 x4",
                               "position_projection 64x64x24",
                               "qkv 72x64x192",
                               "qkv 192x64x72",
                               "memory_backward r6144 w6144",
                               "residual_backward r12288 w6144"});
    e.workload.score_dropout = false;
    CHECK(attention_of(e, KernelStyle::operations).forward.size() == of.forward.size() - 1);
    CHECK(attention_of(e, KernelStyle::operations).backward.size() == of.backward.size() - 1);
}
