// Kernels of operators that a library composes, and of automatic casting. The model of
// small_model.h: T = 48, A = 48 x 64 x 2 = 6144 bytes.
#include <catch2/catch.hpp>

#include "model/block/blocks.h"
#include "tests/model/block/listed_block.h"
#include "tests/model/block/small_model.h"

using namespace stepcast;

namespace {

using Lines = std::vector<std::string>;
ListedBlock listed_attention(const Experiment& e) {
    return listed_block(e, attention_block(e.workload, rank_shape(e)));
}

Experiment eager() {
    Experiment e = small_model();
    e.runtime.gradients.fused_accumulation = false;
    e.runtime.kernels = KernelStyle::eager;
    return e;
}

}  // namespace

// A norm moves 12 and 10 A forward, 28 and 23 A backward. Turned are 8 + 4 heads of 8: 48 x 96 x 2
// = 9216 bytes, 11.5 and 9 times forward, 14 and 12.5 times backward, queries and keys with 5 and 9
// kernels each. All heads with the values are 12288 bytes.
TEST_CASE("composed norms and rotary positions are many kernels with many times the bytes") {
    Experiment e = eager();
    e.runtime.composed = {Composed::norms, Composed::rotary};
    const ListedBlock of = listed_attention(e);
    CHECK(of.forward == Lines{"attention_norm r73728 w61440 x7", "qkv 48x128x64",
                              "rotary r105984 w82944 x10",
                              "attention 3 sequences 8 heads 16x16 widths 8 8 causal",
                              "attention_output 48x64x64", "residual r12288 w6144"});
    CHECK(of.backward ==
          Lines{"attention_output 48x64x64", "attention_output 64x64x48",
                "attention_backward 3 sequences 8 heads 16x16 widths 8 8 causal backward x2",
                "rotary_backward r129024 w115200 x18", "head_layout_backward r12288 w12288",
                "qkv 48x64x128", "qkv 128x64x48", "attention_norm_backward r172032 w141312 x17",
                "residual_backward r12288 w6144"});
    e.workload.norm = Norm::layernorm;  // one kernel of PyTorch
    CHECK(listed_attention(e).forward[0] == "attention_norm r6144 w6144");
    e.runtime.composed = {Composed::activation, Composed::experts};
    CHECK(listed_attention(e).forward[2] == "rotary r12288 w12288 x3");
}

// 3 sequences, 8 heads, 16 x 16 scores of 2 bytes: 12288. One kernel reads the visible half, and
// the gradient beside it; steps read 8 and 10 of them, and write 8.
TEST_CASE("plain attention's softmax in steps is four kernels over fp32 scores") {
    Experiment e = eager();
    e.runtime.attention = AttentionKind::plain;
    const auto softmax = [&] {
        const ListedBlock of = listed_attention(e);
        Lines found;
        for (const Lines* lines : {&of.forward, &of.backward})
            std::ranges::copy_if(*lines, std::back_inserter(found),
                                 [](const auto& line) { return line.starts_with("softmax"); });
        return found;
    };
    CHECK(softmax() == Lines{"softmax r6144 w12288", "softmax_backward r12288 w12288"});
    e.runtime.composed = {Composed::softmax};
    CHECK(softmax() == Lines{"softmax r98304 w98304 x4", "softmax_backward r122880 w98304 x4"});
    e.runtime.attention = AttentionKind::flash;
    CHECK(softmax().empty());
}

// The inner width is 48 x 128 = 6144 elements of 2 bytes: 12288. Forward 10 tensors are read and 8
// written, backward 17 and 11.
TEST_CASE("GELU in steps is one kernel unless it is composed") {
    Experiment e = eager();
    e.workload.gated = false;
    e.workload.linear_bias = true;
    e.workload.activation = Activation::gelu_steps;
    const auto lines = [&](const Lines& all, const std::string& begins) {
        Lines found;
        std::ranges::copy_if(all, std::back_inserter(found),
                             [&](const std::string& line) { return line.starts_with(begins); });
        return found;
    };
    ListedBlock of = listed_block(e, feed_forward_block(e.workload, rank_shape(e)));
    CHECK(lines(of.forward, "activation") == Lines{"activation r12288 w12288"});
    CHECK(lines(of.backward, "activation") == Lines{"activation_backward r24576 w12288"});
    CHECK(lines(of.backward, "bias_gradient") ==
          Lines{"bias_gradient r6144 w0", "bias_gradient r12288 w0"});
    e.runtime.composed = {Composed::activation};
    of = listed_block(e, feed_forward_block(e.workload, rank_shape(e)));
    CHECK(lines(of.forward, "activation") ==
          Lines{"activation r12288 w12288", "activation r24576 w24576 x2",
                "activation r24576 w12288", "activation r36864 w36864 x3",
                "activation r24576 w12288"});
    CHECK(lines(of.backward, "activation") ==
          Lines{"activation_backward r49152 w24576 x2", "activation_backward r24576 w12288",
                "activation_backward r12288 w12288", "activation_backward r61440 w49152 x4",
                "activation_backward r61440 w36864 x3"});
    // as before
    CHECK(lines(of.backward, "bias_gradient") ==
          Lines{"bias_gradient r6144 w0", "bias_gradient r12288 w0"});
}

// 48 tokens with 2 of 4 experts each: 96 slots of 64, 12288 bytes; inner width 96 x 128 x 2 =
// 24576.
TEST_CASE(
    "composed passes around experts: slots masked, put in order, weighted and added up one by "
    "one") {
    Experiment e = eager();
    e.workload.moe.experts = 4;
    e.workload.moe.top_k = 2;
    e.runtime.composed = {Composed::experts};
    const ListedBlock of = listed_block(e, expert_block(e.workload, rank_shape(e)));
    const auto has = [](const Lines& lines, const std::string& line) {
        return std::ranges::find(lines, line) != lines.end();
    };
    CHECK(has(of.forward, "permute r24576 w24576 x4"));
    CHECK(has(of.forward, "activation r196608 w122880 x4"));
    CHECK(has(of.forward, "unpermute r86016 w49152 x6"));
    CHECK(has(of.backward, "unpermute_backward r159744 w98304 x10"));
    CHECK(has(of.backward, "activation_backward r319488 w196608 x7"));
    CHECK(has(of.backward, "permute_backward r36864 w24576 x6"));
}

// 48 x 1000 logits of 2 bytes are 96000. Forward: cast (2 + 4), softmax (3 x 4 + 4): 14 bytes read,
// 8 written. Backward: zeros (4), the softmax's (3 x 4 + 4), cast (4 + 2): 16 read, 10 written. Of
// logits as they are 6 and 2, then 6 and 4.
TEST_CASE("PyTorch's cross entropy reads the logits three times, with a cast or without") {
    Experiment e = eager();
    e.runtime.composed = {Composed::loss};
    const auto loss = [&] {
        const ListedBlock of = listed_block(e, head_block(e.workload, rank_shape(e)));
        return Lines{of.forward.back(), of.backward.front()};
    };
    CHECK(loss() == Lines{"loss r672000 w384000 long x3", "loss_backward r768000 w480000 long x4"});
    e.workload.fp32_loss = false;
    CHECK(loss() == Lines{"loss r288000 w96000 long x3", "loss_backward r288000 w192000 long x4"});
}

// Queries, keys and values together are 48 x 128 x 2 = 12288 bytes. A norm reads 6144 and its
// gradient again for scale and shift.
TEST_CASE("gradients of biases and norms are column sums in kernels of their own") {
    Experiment e = eager();
    e.workload.qkv_bias = true;
    e.workload.norm = Norm::layernorm;
    const auto sums = [&] {
        Lines found;
        for (const std::string& line : listed_attention(e).backward)
            if (line.find("_gradient ") != std::string::npos) found.push_back(line);
        return found;
    };
    CHECK(sums() == Lines{"bias_gradient r12288 w0"});
    e.runtime.composed = {Composed::column_sums};
    CHECK(sums() == Lines{"bias_gradient r12288 w0", "norm_weight_gradient r12288 w0"});
    const auto access = [&] {
        TaskGraph graph(1, false);
        const Routing balanced;
        Planner back(graph);
        const BackwardPlanners both{back, back};
        const LayerContext c{e, rank_shape(e), rank_groups(e.parallelism), balanced};
        plan_block({nullptr, &both}, c, attention_block(e.workload, c.shape), KernelStyle::fused);
        std::vector<MemoryPass::Access> found;
        const NameId bias = graph.name_id("bias_gradient");
        for (const PlannedTask& task : back.take().tasks)
            if (task.name == bias) {
                const Place place(0, task.lane);
                const TaskId id =
                    graph.add({task.name, Phase::backward, task.op, task.host_calls, task.group},
                              {&place, 1}, {});
                found.push_back(std::get<MemoryPass>(graph.op(id)).access);
            }
        return found;
    };
    CHECK(access() == std::vector{MemoryPass::Access::strided});
    e.workload.adapter_rank = 4;  // frozen norms
    CHECK(sums() == Lines{"bias_gradient r12288 w0"});
    e.runtime.composed = {};
    CHECK(access() == std::vector{MemoryPass::Access::stream});
}

// The residual stream and norms are 48 x 64 x 4 = 12288 bytes. Weights of 128 x 64 and 64 x 64 are
// cast, and their gradients back; so is the norm's result, for each product that reads it.
TEST_CASE("automatic casting keeps norms and residuals in fp32 and casts weights and inputs") {
    Experiment e = eager();
    e.runtime.autocast = true;
    const ListedBlock of = listed_attention(e);
    CHECK(of.forward == Lines{"attention_norm r12288 w12288", "cast r12288 w6144",
                              "cast r32768 w16384", "qkv 48x128x64", "rotary r12288 w12288 x3",
                              "attention 3 sequences 8 heads 16x16 widths 8 8 causal",
                              "cast r16384 w8192", "attention_output 48x64x64",
                              "residual r18432 w12288"});
    CHECK(of.backward ==
          Lines{"cast r8192 w16384", "attention_output 48x64x64", "attention_output 64x64x48",
                "attention_backward 3 sequences 8 heads 16x16 widths 8 8 causal backward x2",
                "rotary_backward r9216 w9216 x2", "head_layout_backward r12288 w12288",
                "cast r16384 w32768", "qkv 48x64x128", "qkv 128x64x48", "cast r6144 w12288",
                "attention_norm_backward r24576 w12288 x2", "residual_backward r24576 w12288"});
    // keys and values cast the norm's result anew: three times
    e.runtime.fused_projections = false;
    const ListedBlock apart = listed_attention(e);
    CHECK(std::ranges::count(apart.forward, "cast r12288 w6144") == 3);
    e.workload.dtype = Dtype::tf32;  // tensors are fp32 already
    CHECK(std::ranges::none_of(listed_attention(e).forward,
                               [](const std::string& line) { return line.starts_with("cast"); }));
}

// Four experts of 64 x 256 (gate and up) and 128 x 64 have 65536 and 32768 weights; the router, in
// 16 bits, 256. The norm's result is cast as before a dense block. Frozen weights have no gradient
// to cast back.
TEST_CASE("automatic casting casts the weights of all local experts") {
    Experiment e = eager();
    e.runtime.autocast = true;
    e.workload.moe.experts = 4;
    e.workload.moe.top_k = 2;
    const auto casts = [&] {
        std::pair<Lines, Lines> found;
        const ListedBlock of = listed_block(e, expert_block(e.workload, rank_shape(e)));
        const auto is_cast = [](const std::string& line) { return line.starts_with("cast"); };
        std::ranges::copy_if(of.forward, std::back_inserter(found.first), is_cast);
        std::ranges::copy_if(of.backward, std::back_inserter(found.second), is_cast);
        return found;
    };
    CHECK(casts().first == Lines{"cast r12288 w6144", "cast r1024 w512", "cast r262144 w131072",
                                 "cast r131072 w65536"});
    CHECK(casts().second == Lines{"cast r65536 w131072", "cast r131072 w262144", "cast r512 w1024",
                                  "cast r6144 w12288"});
    e.workload.adapter_rank = 2;
    CHECK(casts().second == Lines{"cast r6144 w12288"});
}

// The output projection is 64 x 64, its input and result 3072 elements: 6144 bytes in 16 bit, 12288
// in fp32. A cast to fp32 takes the time of 1.5 times that many bytes: 9216 and 18432. The sum
// reads 6144 + 12288. The first product of a rank of 8 is 48 x 8, its gradient 8 x 64.
TEST_CASE("adapters as PEFT composes them are fp32 products between casts, a scaling and a sum") {
    Experiment e = eager();
    e.workload.adapter_rank = 8;
    e.runtime.composed = {Composed::adapters};
    const auto adapter = [](const Lines& lines) {
        Lines found;
        std::ranges::copy_if(lines, std::back_inserter(found),
                             [](const std::string& line) { return line.starts_with("adapter"); });
        return found;
    };
    const Lines ahead{"adapter_cast r9216 w18432", "adapter_in 48x8x64 fp32",
                      "adapter_out 48x64x8 fp32",  "adapter_scale r12288 w12288",
                      "adapter_sum r18432 w12288", "adapter_cast r12288 w6144"};
    const Lines behind{"adapter_cast_backward r9216 w18432",
                       "adapter_cast_backward r12288 w6144",
                       "adapter_scale_backward r12288 w12288",
                       "adapter_out 64x8x48 fp32",
                       "adapter_out 48x8x64 fp32",
                       "adapter_in 8x64x48 fp32",
                       "adapter_in 48x64x8 fp32",
                       "adapter_cast_backward r12288 w6144",
                       "adapter_sum_backward r12288 w6144"};
    for (const KernelStyle style : {KernelStyle::fused, KernelStyle::operations}) {
        if (style == KernelStyle::operations) e.runtime.attention = AttentionKind::plain;
        const ListedBlock of = listed_block(e, attention_block(e.workload, rank_shape(e)), style);
        const Lines forward = adapter(of.forward), backward = adapter(of.backward);
        CHECK(forward.size() == 12);
        CHECK(Lines(forward.end() - 6, forward.end()) == ahead);
        CHECK(Lines(backward.begin(), backward.begin() + 9) == behind);
    }
    // Autocast: x is cast to 16 bit and its gradient back, the products and the result are in 16
    // bit, and sums of gradients in fp32.
    e.runtime.attention = AttentionKind::flash;
    e.runtime.autocast = true;
    const Lines forward = adapter(listed_attention(e).forward),
                backward = adapter(listed_attention(e).backward);
    CHECK(forward[6] == "adapter_cast r12288 w6144");
    CHECK(forward[7] == "adapter_in 48x8x64");
    CHECK(backward[8] == "adapter_sum_backward r24576 w12288");
    // fp32 needs no casts.
    e.runtime.autocast = false;
    e.workload.dtype = Dtype::fp32;
    CHECK(adapter(listed_attention(e).forward).size() == 8);
    CHECK(adapter(listed_attention(e).backward).size() == 12);
}

// Queries: 48 x 8 heads of 8, 6144 bytes; keys half of that.
TEST_CASE("norms of queries and keys, and of what a block adds") {
    Experiment e = eager();
    e.workload.qk_norm = e.workload.post_norms = true;
    const ListedBlock of = listed_attention(e);
    CHECK(of.forward[2] == "query_norm r6144 w6144");
    CHECK(of.forward[3] == "key_norm r3072 w3072");
    CHECK(of.forward[7] == "post_norm r6144 w6144");
    CHECK(of.forward[8] == "residual r12288 w6144");
    CHECK(of.backward[0] == "post_norm_backward r12288 w6144 x2");
    CHECK(listed_block(e, feed_forward_block(e.workload, rank_shape(e))).backward[0] ==
          "post_norm_backward r12288 w6144 x2");
}
