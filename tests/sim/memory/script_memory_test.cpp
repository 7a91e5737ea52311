#include <catch2/catch.hpp>

#include "sim/memory/allocator_forecast.h"
#include "sim/memory/memory_use.h"

using namespace stepcast;

namespace {

struct ScriptShape {
    int layers, hidden, heads, ffn, vocab, seq, batch;
    Dtype dtype;
    AttentionKind attention;
    double mebibytes;
};

Experiment experiment_of(const ScriptShape& s) {
    Experiment e;
    Workload& w = e.workload;
    w.kind = Workload::Kind::transformer;
    w.layers = s.layers;
    w.hidden = s.hidden;
    w.heads = s.heads;
    w.ffn = s.ffn;
    w.vocab = s.vocab;
    w.seq = s.seq;
    w.tied = false;
    w.dtype = s.dtype;
    e.runtime.attention = s.attention;
    w.optimizer = Optimizer::adam;
    e.runtime.kernels = KernelStyle::script;
    e.parallelism.micro_batch = s.batch;
    return e;
}

}  // namespace

// Peak of tensors in MiB beside weights and moments while PyTorch 2.11 ran such steps on shapes
// alone (storages alive between operators, each rounded up to 512 bytes), less the 64 MiB that
// cuBLAS takes on a GPU. A region planned ahead has what lives, without the ends of blocks that the
// cache does not split. In the last shape the fullest moment is the embedding's gradient, where the
// list still has two tensors of the residual stream.
TEST_CASE("memory of an eager script is what PyTorch's automatic differentiation holds") {
    constexpr AttentionKind flash = AttentionKind::flash, plain = AttentionKind::plain;
    const ScriptShape shapes[] = {
        {12, 768, 12, 3072, 50304, 1024, 1, Dtype::bf16, flash, 881.3},
        {12, 768, 12, 3072, 50304, 1024, 1, Dtype::bf16, plain, 1168.7},
        {12, 768, 12, 3072, 50304, 1024, 8, Dtype::bf16, plain, 9349.6},
        {12, 768, 12, 3072, 50304, 1024, 32, Dtype::bf16, flash, 28200.3},
        {12, 768, 12, 3072, 50304, 1024, 32, Dtype::fp32, flash, 37512.3},
        {12, 768, 12, 3072, 50304, 1024, 8, Dtype::fp32, plain, 13981.6},
        {48, 1600, 25, 6400, 50304, 1024, 8, Dtype::bf16, flash, 24009.6},
        {24, 1024, 16, 4096, 30528, 512, 16, Dtype::bf16, plain, 12113.1},
        {4, 4096, 32, 16384, 32000, 4096, 1, Dtype::bf16, flash, 3614.3},
        {2, 8192, 64, 32768, 32000, 2048, 2, Dtype::bf16, flash, 4168.4},
    };
    for (const ScriptShape& shape : shapes) {
        Experiment e = experiment_of(shape);
        e.runtime.allocator = AllocatorKind::arena;
        const MemoryUse use = memory_forecast(e);
        const Bytes beside = use.peak - use.weights - use.optimizer - parse_bytes("64 MiB");
        INFO(shape.hidden << " x " << shape.batch);
        CHECK(beside.si() / 1048576 ==
              Approx(shape.mebibytes).epsilon(shape.layers == 2 ? 0.008 : 0.0005));
    }
}

// With one token only the parameters' copies and the library's workspace remain.
TEST_CASE("cuBLAS's workspace is there however small the step") {
    const MemoryUse use = memory_forecast(
        experiment_of({1, 64, 1, 64, 64, 1, 1, Dtype::bf16, AttentionKind::flash, 0}));
    CHECK(use.buffers >= parse_bytes("64 MiB"));
    CHECK(use.buffers < parse_bytes("65 MiB"));
}

// 163,109,376 parameters of two bytes, and two moments of two bytes each.
TEST_CASE("moments of an eager script have the parameters' type") {
    const MemoryUse use = memory_forecast(
        experiment_of({12, 768, 12, 3072, 50304, 1024, 1, Dtype::bf16, AttentionKind::flash, 0}));
    CHECK(use.weights.si() == 2.0 * 163109376);
    CHECK(use.optimizer.si() == 4.0 * 163109376);
}

// 2,048 tokens of 1,024 elements of 2 bytes: A = 4 MiB; the inner width is four times as large. A
// layer keeps more than its gradients take, so the last one's backward is the fullest: gradients of
// the residual stream, of the activation's result and of its input, A + 4 A + 4 A = 36 MiB, beside
// cuBLAS's 64 MiB.
TEST_CASE("where layers hold the most, the activation's backward comes on top") {
    Experiment e =
        experiment_of({48, 1024, 16, 4096, 64, 512, 4, Dtype::bf16, AttentionKind::flash, 0});
    e.runtime.allocator = AllocatorKind::arena;
    CHECK(memory_forecast(e).buffers.si() / 1048576 == Approx(100));
}
