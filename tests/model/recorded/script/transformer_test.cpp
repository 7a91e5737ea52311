// Counts of the operators that PyTorch 2.11 dispatches for scripts of these shapes
// (notes/pytorch.md).

#include <map>

#include <catch2/catch.hpp>

#include "model/base/errors.h"
#include "model/recorded/script/steps.h"
#include "model/step.h"
#include "tests/model/block/plan_lines.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

// The comments below count with batch 8, 1024 tokens, hidden 768, 12 heads, ffn 3072, vocabulary
// 50304.
Experiment gpt2(int layers, AttentionKind attention, Dtype dtype = Dtype::bf16, int batch = 8) {
    Experiment e;
    Workload& w = e.workload;
    w.kind = Workload::Kind::transformer;
    w.layers = layers;
    w.hidden = 768;
    w.heads = 12;
    w.ffn = 3072;
    w.vocab = 50304;
    w.seq = 1024;
    w.tied = false;
    w.dtype = dtype;
    w.optimizer = Optimizer::adam;
    e.runtime.kernels = KernelStyle::script;
    e.runtime.attention = attention;
    e.parallelism.micro_batch = batch;
    e.cluster.gpu.peaks[Dtype::bf16] = e.cluster.gpu.peaks[Dtype::tf32] =
        e.cluster.gpu.peaks[Dtype::fp32] = FlopsPerSecond(1e15);
    return e;
}

TaskGraph step_of(const Experiment& e) { return build_step(e, {}); }

int kernels(const TaskGraph& graph, Phase phase) {
    int count = 0;
    for (TaskId t = 0; t < graph.size(); ++t)
        count += graph.phase(t) == phase && !graph.on_host(t) ? 1 : 0;
    return count;
}

int of_a_layer(AttentionKind attention, Phase phase, Dtype dtype = Dtype::bf16, int batch = 8) {
    return kernels(step_of(gpt2(3, attention, dtype, batch)), phase) -
           kernels(step_of(gpt2(2, attention, dtype, batch)), phase);
}

// GB that the kernels of one name read and write.
double moved(const TaskGraph& graph, std::string_view name) {
    double sum = 0;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (const auto* pass = std::get_if<MemoryPass>(&graph.op(t)); pass && graph.name(t) == name)
            sum += (pass->read + pass->written).si();
    return sum / 1e9;
}

std::string eager_complaint(const Experiment& e) {
    try {
        check_eager(e);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

}  // namespace

// Forward, flash: norm, qkv, attention, output, add, norm, up, GELU, down, add = 10. Plain:
// attention is q copied, k transposed, product, scale, softmax, v copied, product, heads side by
// side: 8 instead of 1. One sequence needs no copies of q, k and v: 5. Backward, flash: each linear
// layer dx, dW, bias (12); GELU; two norms of two kernels and their sums with the residual (6);
// attention; stack, permute: 22. Plain: copy, two products, softmax, scale, two products: 7 instead
// of 1.
TEST_CASE("a layer of an eager script is as many kernels as PyTorch dispatches") {
    CHECK(of_a_layer(AttentionKind::flash, Phase::forward) == 10);
    CHECK(of_a_layer(AttentionKind::plain, Phase::forward) == 17);
    CHECK(of_a_layer(AttentionKind::plain, Phase::forward, Dtype::bf16, 1) == 14);
    CHECK(of_a_layer(AttentionKind::flash, Phase::backward) == 22);
    CHECK(of_a_layer(AttentionKind::plain, Phase::backward) == 28);
}

// Forward: embedding; positions counted, gathered, added; norm, logits, cast, softmax, loss: 9;
// fp32 needs no cast. Backward: ones, zeros, picked, softmax, cast, dW, dx, norm 2: 9; positions
// summed, zeros and rows added (1024 <= 3072): 3; the embedding's zeros, sort of 12 and 2: 15.
TEST_CASE("the ends of an eager script cast the logits only where they are not fp32") {
    const TaskGraph bf16 = step_of(gpt2(1, AttentionKind::flash));
    const TaskGraph fp32 = step_of(gpt2(1, AttentionKind::flash, Dtype::fp32));
    CHECK(kernels(bf16, Phase::forward) == 10 + 9);
    CHECK(kernels(fp32, Phase::forward) == 10 + 8);
    CHECK(kernels(bf16, Phase::backward) == 22 + 27);
    CHECK(kernels(fp32, Phase::backward) == 22 + 26);
    // 8192 x 50304 logits with 2 + 4 bytes per element, in both directions.
    CHECK(moved(bf16, "cast_logits") == Approx(2.4724).epsilon(1e-4));
    CHECK(moved(bf16, "cast_logits_backward") == Approx(2.4724).epsilon(1e-4));
    CHECK(moved(fp32, "cast_logits") == 0);
}

// 163,109,376 untied parameters, 7 tensors of this type: 14 bytes in bf16, 28 in fp32. With 65536 x
// 320 elements per kernel 8 kernels.
TEST_CASE("fused AdamW moves seven tensors of the parameters' type") {
    const TaskGraph bf16 = step_of(gpt2(12, AttentionKind::flash));
    CHECK(moved(bf16, "adam") == Approx(163109376.0 * 14 / 1e9));
    CHECK(moved(step_of(gpt2(12, AttentionKind::flash, Dtype::fp32)), "adam") ==
          Approx(163109376.0 * 28 / 1e9));
    const auto launches = [](const TaskGraph& graph, std::string_view name) {
        int count = 0;
        for (TaskId t = 0; t < graph.size(); ++t) count += graph.name(t) == name ? 1 : 0;
        return count;
    };
    CHECK(launches(bf16, "adam") == 8);
    CHECK(bf16.rank_count() == 1);
    // 12 tensors per layer and 5 of the ends: 101 and 113; a kernel counts up to 110.
    CHECK(launches(step_of(gpt2(8, AttentionKind::flash)), "step_count") == 1);
    CHECK(launches(step_of(gpt2(9, AttentionKind::flash)), "step_count") == 2);
}

// Products of 12 layers with 12 x 768^2 weights and the logits with 50304 x 768, for 8192 tokens: 2
// operations per weight forward and twice that backward, 6 x 8192 x (84,934,656 + 38,633,472).
// Plain attention: 2 x 2 x 96 x 1024^2 x 64 forward and twice that backward, in each of 12 layers.
TEST_CASE("an eager script multiplies what the model asks for, each weight three times") {
    double linear = 0, attention = 0;
    const TaskGraph graph = step_of(gpt2(12, AttentionKind::plain));
    for (TaskId t = 0; t < graph.size(); ++t)
        if (const auto* gemm = std::get_if<Gemm>(&graph.op(t)))
            (gemm->batch == 1 ? linear : attention) += flops_of(*gemm).si();
    CHECK(linear == Approx(6.0 * 8192 * (84934656.0 + 38633472.0)));
    CHECK(attention == Approx(12.0 * 3 * 4 * 96 * 1024 * 1024 * 64));
}

TEST_CASE("layouts are those of a linear layer's three products") {
    std::map<Gemm::Layout, int> count;
    const TaskGraph graph = step_of(gpt2(1, AttentionKind::flash));
    for (TaskId t = 0; t < graph.size(); ++t)
        if (const auto* gemm = std::get_if<Gemm>(&graph.op(t))) ++count[gemm->layout];
    CHECK(count[Gemm::Layout::nt] == 5);
    CHECK(count[Gemm::Layout::nn] == 5);
    CHECK(count[Gemm::Layout::tn] == 5);
}

// The tf32 mode does not apply to fused attention, which multiplies fp32 as such; products through
// memory follow it.
TEST_CASE("tf32 is for products, not for fused attention") {
    const auto dtype_of_attention = [](AttentionKind kind) {
        const TaskGraph graph = step_of(gpt2(1, kind, Dtype::tf32));
        for (TaskId t = 0; t < graph.size(); ++t) {
            if (const auto* op = std::get_if<Attention>(&graph.op(t))) return op->dtype;
            if (const auto* op = std::get_if<Gemm>(&graph.op(t)); op && op->batch > 1)
                return op->dtype;
        }
        return Dtype::fp8;
    };
    CHECK(dtype_of_attention(AttentionKind::flash) == Dtype::fp32);
    CHECK(dtype_of_attention(AttentionKind::plain) == Dtype::tf32);
}

// One kernel per pass and layer, with 8 x 12 heads of 1024 x 1024 pairs.
TEST_CASE("fused attention goes forward in the forward and backward in the backward") {
    const TaskGraph graph = step_of(gpt2(2, AttentionKind::flash));
    std::map<Phase, std::vector<bool>> backward;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (const auto* op = std::get_if<Attention>(&graph.op(t))) {
            backward[graph.phase(t)].push_back(op->backward);
            CHECK(op->batch == 8);
            CHECK(op->heads == 12);
        }
    CHECK(backward == std::map<Phase, std::vector<bool>>{{Phase::forward, {false, false}},
                                                         {Phase::backward, {true, true}}});
}

// Three of four experts have tokens. Forward: gate, cast, softmax, top-k 2, histogram 2 + 2, sort
// 8, division and gather; 3 kernels per expert; concatenation, zeros, copy, filling, cast, product,
// sum. The host reads three values.
TEST_CASE("an expert without tokens is not called") {
    Experiment e;
    e.workload.moe.experts = 4;
    e.workload.hidden = 1024;
    e.workload.ffn = 4096;
    e.workload.seq = 8192;
    e.runtime.kernels = KernelStyle::script;
    const TaskGraph graph = build_step(e, {1, 4, {16000, 0, 300, 84}, {}, {}});
    CHECK(kernels(graph, Phase::forward) == 5 + 4 + 8 + 2 + 3 * 3 + 7);
    int reads = 0;
    for (TaskId t = 0; t < graph.size(); ++t) reads += graph.on_host(t) ? 1 : 0;
    CHECK(reads == 3);
    CHECK(graph.rank_count() == 1);
    // The first product of the backward is the input gradient of the last expert's down projection.
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.phase(t) == Phase::backward && graph.name(t) == "expert_down") {
            CHECK(std::get<Gemm>(graph.op(t)).m == 84);
            break;
        }
}

// 10 tokens with 2 slots: 20 rows of width 8, 320 bytes; inner width 24; of four experts three have
// 12, 5 and 3 slots. A kernel of a few elements moves 512 bytes and 8 per element. Behind @ stands
// the host's work in additions: a launch is 0.5; model/recorded/script/script.h lists what comes
// before it.
TEST_CASE("an expert layer of an eager script: every kernel and what issues it") {
    Experiment e;
    e.workload.moe.experts = 4;
    e.workload.hidden = 8;
    e.workload.ffn = 24;
    e.workload.seq = 5;
    e.workload.layers = 1;
    e.workload.dtype = Dtype::bf16;
    e.parallelism.micro_batch = 2;
    e.runtime.kernels = KernelStyle::script;
    const auto lines = [&](Phase phase) {
        const TaskGraph graph = build_step(e, {1, 4, {12, 0, 5, 3}, {}, {}});
        std::vector<std::string> all;
        for (TaskId t = 0; t < graph.size(); ++t)
            if (graph.phase(t) == phase)
                all.push_back(fmt::format("{} {} @{:.3g}", graph.name(t), line_of(graph.op(t)),
                                          graph.host_calls(t)));
        return all;
    };
    using Lines = std::vector<std::string>;
    CHECK(
        lines(Phase::forward) ==
        Lines{"gate 10x4x8 unaligned @5", "scores r80 w160 @4.1",       "scores r160 w160 @0.5",
              "top_k r832 w832 @0.5",     "top_k r832 w832 @0.5",       "histogram r672 w672 @1.7",
              "histogram 1 calls @0",     "histogram r672 w672 @1.7",   "histogram 1 calls @0",
              "histogram r672 w672 @1.7", "histogram r672 w672 @0.5",   "sort r672 w672 @1.7",
              "sort r672 w672 @0.5",      "sort r672 w672 @0.5",        "sort r672 w672 @0.5",
              "sort r672 w672 @0.5",      "sort r672 w672 @0.5",        "sort r672 w672 @0.5",
              "sort r672 w672 @0.5",      "counts 1 calls @0",          "gather r672 w672 @2.9",
              "gather r320 w320 @0.5",    "expert_up 12x24x8 @6.8",     "gelu r576 w576 @1.7",
              "expert_down 12x8x24 @5",   "expert_up 5x24x8 @6.8",      "gelu r240 w240 @1.7",
              "expert_down 5x8x24 @5",    "expert_up 3x24x8 @6.8",      "gelu r144 w144 @1.7",
              "expert_down 3x8x24 @5",    "concatenate r320 w320 @1.7", "scatter r0 w320 @1.7",
              "scatter r320 w320 @1.7",   "scatter r320 w320 @0.5",     "weigh r672 w672 @2.3",
              "weigh r320 w320 @1.7",     "sum_slots r320 w160 @1.7"});
    CHECK(lines(Phase::backward) == Lines{"loss r160 w320 @4.6",
                                          "loss r320 w320 @0.5",
                                          "loss r320 w0 @0.5",
                                          "ones r512 w512 @6.5",
                                          "loss_backward r0 w320 @2.5",
                                          "loss_backward r320 w320 @4.9",
                                          "loss_backward r320 w320 @0.5",
                                          "loss_backward r640 w320 @0.5",
                                          "loss_backward r320 w160 @2.5",
                                          "weigh_backward r160 w320 @4.5",
                                          "weigh_backward r480 w320 @0.5",
                                          "weigh_backward r320 w0 @0.5",
                                          "weigh_backward r672 w672 @2.5",
                                          "scatter_backward r320 w320 @2.5",
                                          "expert_down 3x24x8 @12.9",
                                          "expert_down 8x24x3 @0.5",
                                          "bias_gradient r48 w0 @0.5",
                                          "gelu_backward r288 w144 @2.5",
                                          "expert_up 24x8x3 @10.9",
                                          "bias_gradient r144 w0 @0.5",
                                          "expert_down 5x24x8 @12.9",
                                          "expert_down 8x24x5 @0.5",
                                          "bias_gradient r80 w0 @0.5",
                                          "gelu_backward r480 w240 @2.5",
                                          "expert_up 24x8x5 @10.9",
                                          "bias_gradient r240 w0 @0.5",
                                          "expert_down 12x24x8 @12.9",
                                          "expert_down 8x24x12 @0.5",
                                          "bias_gradient r192 w0 @0.5",
                                          "gelu_backward r1152 w576 @2.5",
                                          "expert_up 24x8x12 @10.9",
                                          "bias_gradient r576 w0 @0.5",
                                          "top_k_backward r0 w160 @4.5",
                                          "top_k_backward r672 w672 @0.5",
                                          "scores_backward r320 w160 @2.5",
                                          "scores_backward r160 w80 @2.5",
                                          "gate 4x8x10 unaligned @10.9",
                                          "bias_gradient r80 w0 @0.5",
                                          "end_of_step r512 w512 @1"});
    e.workload.dtype = Dtype::fp32;  // without the four casts
    CHECK(lines(Phase::forward).size() == 37);
    CHECK(lines(Phase::backward).size() == 36);
    e.workload.layers = 2;
    CHECK(lines(Phase::forward).size() == 74);
}

// Two sequences of 5 tokens, width 8 (80 elements), 2 heads of 4, inner width 24 (240), 30 words
// (300 logits), 100 scores; two bytes each. A layer has 4 x 64 + 2 x 8 x 24 weights, 24 + 8 + 24 +
// 8 biases and 4 x 8 of norms: 736 parameters; the ends have 2 x 240 + 40 + 16: 1272 in all, in 17
// tensors. Behind @ stands the host's work.
TEST_CASE("a layer of an eager script with plain attention: every kernel and what issues it") {
    Experiment e = gpt2(1, AttentionKind::plain, Dtype::bf16, 2);
    e.workload.hidden = 8;
    e.workload.heads = 2;
    e.workload.ffn = 24;
    e.workload.vocab = 30;
    e.workload.seq = 5;
    const auto lines = [&](Phase phase) {
        const TaskGraph graph = step_of(e);
        std::vector<std::string> all;
        for (TaskId t = 0; t < graph.size(); ++t)
            if (graph.phase(t) == phase)
                all.push_back(fmt::format("{} {} @{:.3g}", graph.name(t), line_of(graph.op(t)),
                                          graph.host_calls(t)));
        return all;
    };
    using Lines = std::vector<std::string>;
    CHECK(lines(Phase::forward) ==
          Lines{"embedding r160 w160 @3.1",      "positions r552 w552 @1.7",
                "positions r80 w80 @1.8",        "positions r240 w160 @1.7",
                "attention_norm r160 w160 @5.2", "qkv 10x24x8 @5",
                "head_layout r160 w160 @8.9",    "head_layout r160 w160 @0.5",
                "scores 5x5x4 *4 @0.5",          "scale r200 w200 @1.7",
                "softmax r200 w200 @1.7",        "head_layout r160 w160 @7.1",
                "values 5x4x5 *4 @0.5",          "head_layout r160 w160 @1.7",
                "attention_output 10x8x8 @5",    "residual r320 w160 @1.7",
                "ffn_norm r160 w160 @3.9",       "ffn_up 10x24x8 @5",
                "gelu r480 w480 @1.7",           "ffn_down 10x8x24 @5",
                "residual r320 w160 @1.7",       "final_norm r160 w160 @3.9",
                "logits 10x30x8 unaligned @5",   "cast_logits r600 w1200 @2.9",
                "log_softmax r2880 w1200 @2.9",  "loss r832 w832 @0.5"});
    CHECK(lines(Phase::backward) == Lines{"ones r512 w512 @7",
                                          "loss_backward r0 w1200 @2.5",
                                          "loss_backward r832 w832 @0.5",
                                          "log_softmax_backward r3240 w1200 @2.5",
                                          "cast_logits_backward r1200 w600 @2.5",
                                          "logits 30x8x10 unaligned @10.9",
                                          "logits 10x8x30 unaligned @0.5",
                                          "final_norm_backward r320 w160 @6.7",
                                          "norm_weight_gradient r320 w0 @0.5",
                                          "ffn_down 10x24x8 @10.9",
                                          "ffn_down 8x24x10 @0.5",
                                          "bias_gradient r160 w0 @0.5",
                                          "gelu_backward r960 w480 @2.5",
                                          "ffn_up 10x8x24 @10.9",
                                          "ffn_up 24x8x10 @0.5",
                                          "bias_gradient r480 w0 @0.5",
                                          "ffn_norm_backward r320 w160 @6.7",
                                          "norm_weight_gradient r320 w0 @0.5",
                                          "gradient_sum r320 w160 @2.5",
                                          "attention_output 10x8x8 @10.9",
                                          "attention_output 8x8x10 @0.5",
                                          "bias_gradient r160 w0 @0.5",
                                          "head_layout_backward r160 w160 @4.5",
                                          "values 5x4x5 *4 @15",
                                          "values 5x5x4 *4 @0.5",
                                          "softmax_backward r400 w200 @2.5",
                                          "scale_backward r200 w200 @2.5",
                                          "scores 4x5x5 *4 @15",
                                          "scores 5x4x5 *4 @0.5",
                                          "stack_gradients r480 w480 @4.5",
                                          "head_layout_backward r480 w480 @4.5",
                                          "qkv 10x8x24 @10.9",
                                          "qkv 24x8x10 @0.5",
                                          "bias_gradient r480 w0 @0.5",
                                          "attention_norm_backward r320 w160 @6.7",
                                          "norm_weight_gradient r320 w0 @0.5",
                                          "gradient_sum r320 w160 @2.5",
                                          "positions_backward r160 w80 @4.5",
                                          "positions_backward r0 w80 @4.5",
                                          "positions_backward r160 w80 @0.5",
                                          "embedding_backward r0 w480 @4.5",
                                          "embedding_backward r320 w160 @0.5"});
    CHECK(lines(Phase::optimizer) == Lines{"step_count r648 w648 @30",
                                           "adam r10176 w7632 long @0.5",
                                           "end_of_step r512 w512 @2.7"});
}

TEST_CASE("what an eager script cannot be written for is refused by its key") {
    CHECK(eager_complaint(gpt2(1, AttentionKind::flash)).empty());
    const auto told = [](auto change) {
        Experiment e = gpt2(1, AttentionKind::flash);
        change(e);
        return eager_complaint(e);
    };
    const auto refusal = [](const std::string& found, const std::string& expected) {
        return found + ", with runtime.kernels = script expected " + expected;
    };
    CHECK(told([](auto& e) { e.workload.tied = true; }) == refusal("workload.tied: true", "false"));
    CHECK(told([](auto& e) { e.cluster.gpus_per_node = 2; }) ==
          refusal("cluster.gpus_per_node: 2", "1 rank"));
    CHECK(told([](auto& e) { e.parallelism.global_batch = 16; }) ==
          refusal("parallelism.global_batch: 16", "one micro-batch"));
    CHECK(told([](auto& e) { e.workload.dtype = Dtype::fp8; }) ==
          refusal("workload.dtype: fp8", "fp32, tf32, fp16 or bf16"));
    CHECK(told([](auto& e) { e.workload.kind = Workload::Kind::mlp; }) ==
          refusal("workload.kind: mlp", "transformer or moe_layer"));
    CHECK(told([](auto& e) {
              e.workload.kind = Workload::Kind::moe_layer, e.workload.tied = true;
          }).empty());
    CHECK(told([](auto& e) { e.parallelism.recompute = Recompute::full; }) ==
          refusal("parallelism.recompute: full", "none"));
    CHECK(told([](auto& e) { e.workload.moe.experts = 8; }) ==
          refusal("workload.moe.experts: 8", "0"));
    CHECK(told([](auto& e) { e.workload.gated = true; }) ==
          refusal("workload.gated: true", "false"));
    CHECK(told([](auto& e) { e.workload.activation = Activation::relu; }) ==
          refusal("workload.activation: relu", "gelu"));
    CHECK(told([](auto& e) { e.workload.norm = Norm::rmsnorm; }) ==
          refusal("workload.norm: rmsnorm", "layernorm"));
    CHECK(told([](auto& e) { e.workload.positions = Positions::rotary; }) ==
          refusal("workload.positions: rotary", "learned"));
    CHECK(told([](auto& e) { e.workload.head = Head::span; }) ==
          refusal("workload.head: span", "tokens"));
    CHECK(told([](auto& e) { e.workload.linear_bias = false; }) ==
          refusal("workload.linear_bias: false", "true"));
    CHECK(told([](auto& e) { e.workload.qkv_bias = false; }) ==
          refusal("workload.qkv_bias: false", "true"));
    CHECK_THAT(told([](auto& e) { e.workload.dropout = 0.1; }), Contains("workload.dropout: 0.1"));
    CHECK(told([](auto& e) { e.runtime.autocast = true; }) ==
          refusal("runtime.autocast: true", "false"));
    CHECK(told([](auto& e) { e.workload.kv_heads = 4; }) ==
          refusal("workload.kv_heads: 4", "as many as heads"));
    CHECK(told([](auto& e) { e.workload.kv_heads = 12; }).empty());
    CHECK(told([](auto& e) { e.workload.heads = 11; }) ==
          refusal("workload.heads: 11", "a divisor of hidden"));
    CHECK(told([](auto& e) { e.workload.heads = 0; }) ==
          refusal("workload.heads: 0", "a divisor of hidden"));
    CHECK(told([](auto& e) {
              e.workload.mla = {0, 512, 64, 0, 64};
          }) == refusal("workload.mla.kv_rank: 512", "0"));
    CHECK(told([](auto& e) { e.workload.optimizer = Optimizer::sgd; }) ==
          refusal("workload.optimizer: sgd", "adam or none"));
    CHECK(told([](auto& e) { e.workload.optimizer = Optimizer::none; }).empty());
}
