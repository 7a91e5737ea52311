// Counted from the operators that PyTorch 2.11 dispatches for scripts of these shapes (docs/pytorch.md).

#include <catch2/catch.hpp>

#include <map>

#include "model/checks/checks.h"
#include "model/builders.h"
#include "model/errors.h"
#include "model/step.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

// The figures of the comments below: batch 8, 1024 tokens, hidden 768, 12 heads, ffn 3072, vocabulary 50304.
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
    w.tied = w.fused_loss = false;
    w.attention = attention;
    w.dtype = dtype;
    w.optimizer = Optimizer::adam;
    e.parallelism.eager_script = true;
    e.parallelism.micro_batch = batch;
    e.cluster.gpu.peaks[Dtype::bf16] = e.cluster.gpu.peaks[Dtype::tf32] = e.cluster.gpu.peaks[Dtype::fp32] = FlopsPerSecond(1e15);
    return e;
}

TaskGraph step_of(const Experiment& e) { return build_step(e, {}); }

int kernels(const TaskGraph& graph, Phase phase) {
    int count = 0;
    for (TaskId t = 0; t < graph.size(); ++t) count += graph.phase(t) == phase && !graph.on_host(t) ? 1 : 0;
    return count;
}

int of_a_layer(AttentionKind attention, Phase phase, Dtype dtype = Dtype::bf16, int batch = 8) {
    return kernels(step_of(gpt2(3, attention, dtype, batch)), phase) -
           kernels(step_of(gpt2(2, attention, dtype, batch)), phase);
}

// GB that kernels of one name move.
double moved(const TaskGraph& graph, std::string_view name) {
    double sum = 0;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (const auto* pass = std::get_if<MemoryPass>(&graph.op(t)); pass && graph.name(t) == name)
            sum += (pass->read + pass->written).si();
    return sum / 1e9;
}

std::string complaint(const Experiment& e) {
    try {
        check_eager(e);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "";
}

}  // namespace

// Forward, flash: norm, qkv, attention, output, add, norm, up, GELU, down, add = 10. Plain: attention is q copied, k
// transposed, product, scale, softmax, v copied, product, heads side by side: 8 instead of 1. One sequence needs no copies of
// q, k and v: 5.
// Backward, flash: each linear layer dx, dW, bias (12); GELU; two norms of two kernels and their sums with the residual (6);
// attention; stack, permute: 22. Plain: copy, two products, softmax, scale, two products: 7 instead of 1.
TEST_CASE("a layer of an eager script is as many kernels as PyTorch dispatches") {
    CHECK(of_a_layer(AttentionKind::flash, Phase::forward) == 10);
    CHECK(of_a_layer(AttentionKind::plain, Phase::forward) == 17);
    CHECK(of_a_layer(AttentionKind::plain, Phase::forward, Dtype::bf16, 1) == 14);
    CHECK(of_a_layer(AttentionKind::flash, Phase::backward) == 22);
    CHECK(of_a_layer(AttentionKind::plain, Phase::backward) == 28);
}

// Embedding, positions counted, gathered, added; norm, logits, cast, softmax, loss: 9; fp32 needs no cast.
// Backward: ones, zeros, picked, softmax, cast, dW, dx, norm 2; positions summed, zeros and rows added (1024 <= 3072); the
// embedding's zeros, sort of 12 and 2: 9 + 3 + 15.
TEST_CASE("the ends of an eager script cast the logits only where they are not fp32") {
    const TaskGraph bf16 = step_of(gpt2(1, AttentionKind::flash));
    const TaskGraph fp32 = step_of(gpt2(1, AttentionKind::flash, Dtype::fp32));
    CHECK(kernels(bf16, Phase::forward) == 10 + 9);
    CHECK(kernels(fp32, Phase::forward) == 10 + 8);
    CHECK(kernels(bf16, Phase::backward) == 22 + 27);
    CHECK(kernels(fp32, Phase::backward) == 22 + 26);
    // 8192 x 50304 logits: 2 + 4 bytes an element each way.
    CHECK(moved(bf16, "cast_logits") == Approx(2.4724).epsilon(1e-4));
    CHECK(moved(bf16, "cast_logits_backward") == Approx(2.4724).epsilon(1e-4));
    CHECK(moved(fp32, "cast_logits") == 0);
}

// 163,109,376 parameters untied, 7 tensors of their type: 14 bytes in bf16, 28 in fp32. 65536 x 320 elements a kernel: 8.
TEST_CASE("fused AdamW moves seven tensors of the parameters' type") {
    const TaskGraph bf16 = step_of(gpt2(12, AttentionKind::flash));
    CHECK(moved(bf16, "adam") == Approx(163109376.0 * 14 / 1e9));
    CHECK(moved(step_of(gpt2(12, AttentionKind::flash, Dtype::fp32)), "adam") == Approx(163109376.0 * 28 / 1e9));
    int launches = 0;
    for (TaskId t = 0; t < bf16.size(); ++t) launches += bf16.name(t) == "adam" ? 1 : 0;
    CHECK(launches == 8);
}

// Products of 12 layers of 12 x 768^2 weights and the logits of 50304 x 768, 8192 tokens: 2 operations a weight forward,
// twice that backward: 6 x 8192 x (84,934,656 + 38,633,472). Plain attention: 2 x 2 x 96 x 1024^2 x 64 forward, twice that
// backward, in each of 12 layers.
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

// The mode of products leaves fused attention alone, which multiplies fp32 as such; products through memory follow it.
TEST_CASE("tf32 is for products, not for fused attention") {
    const auto dtype_of_attention = [](AttentionKind kind) {
        const TaskGraph graph = step_of(gpt2(1, kind, Dtype::tf32));
        for (TaskId t = 0; t < graph.size(); ++t) {
            if (const auto* op = std::get_if<Attention>(&graph.op(t))) return op->dtype;
            if (const auto* op = std::get_if<Gemm>(&graph.op(t)); op && op->batch > 1) return op->dtype;
        }
        return Dtype::fp8;
    };
    CHECK(dtype_of_attention(AttentionKind::flash) == Dtype::fp32);
    CHECK(dtype_of_attention(AttentionKind::plain) == Dtype::tf32);
}

// Three of four experts have tokens. Forward: gate, cast, softmax, top-k 2, histogram 2 + 2, sort 8, division and gather,
// then 3 kernels an expert, then concatenation, zeros, copy, filling, cast, product, sum. Three reads by the host.
TEST_CASE("an expert without tokens is not called") {
    Experiment e;
    e.workload.moe.experts = 4;
    e.workload.hidden = 1024;
    e.workload.ffn = 4096;
    e.workload.seq = 8192;
    e.parallelism.eager_script = true;
    const TaskGraph graph = build_step(e, {1, 4, {16000, 0, 300, 84}, {}, {}});
    CHECK(kernels(graph, Phase::forward) == 5 + 4 + 8 + 2 + 3 * 3 + 7);
    int reads = 0;
    for (TaskId t = 0; t < graph.size(); ++t) reads += graph.on_host(t) ? 1 : 0;
    CHECK(reads == 3);
    // First product of the last expert's backward: its down projection's input gradient.
    for (TaskId t = 0; t < graph.size(); ++t)
        if (graph.phase(t) == Phase::backward && graph.name(t) == "expert_down") {
            CHECK(std::get<Gemm>(graph.op(t)).m == 84);
            break;
        }
}

TEST_CASE("what an eager script cannot be written for is refused by its key") {
    CHECK(complaint(gpt2(1, AttentionKind::flash)).empty());
    Experiment e = gpt2(1, AttentionKind::flash);
    e.workload.tied = true;
    CHECK_THAT(complaint(e), Contains("workload.tied: true, with parallelism.eager_script expected false"));
    e = gpt2(1, AttentionKind::flash);
    e.cluster.gpus_per_node = 2;
    CHECK_THAT(complaint(e), Contains("cluster.gpus_per_node: 2"));
    e = gpt2(1, AttentionKind::flash);
    e.workload.dropout = 0.1;
    CHECK_THAT(complaint(e), Contains("workload.dropout"));
}
