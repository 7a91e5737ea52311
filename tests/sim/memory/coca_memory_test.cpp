// Memory of a captioner, tensor by tensor. 5 samples of 6 positions, width 8, inner width 16, 2
// heads of 4, two bytes: rows are 480 bytes, inner rows 960, scores 720. The other towers are
// smaller; 5 x 4 words of 10 are 200 logits.

#include <catch2/catch.hpp>

#include "model/recorded/coca/parts.h"
#include "model/recorded/coca/tensors.h"
#include "sim/memory/coca_memory.h"

using namespace stepcast;

namespace {

Experiment captioner() {
    Experiment e;
    Workload& w = e.workload;
    w.kind = Workload::Kind::coca;
    w.vision = {.layers = 2, .hidden = 8, .heads = 2, .ffn = 16, .seq = 6};
    w.layers = 1;
    w.hidden = w.ffn = 4;
    w.heads = 1;
    w.seq = 3;
    w.vocab = 10;
    w.decoder = {.layers = 1, .hidden = 4, .heads = 1, .ffn = 4, .seq = 4};
    w.pool_queries = 2;
    w.dtype = Dtype::fp16;
    w.optimizer = Optimizer::adam;
    e.parallelism.micro_batch = 5;
    e.runtime.gradients.type = GradientType::fp16;
    return e;
}

// The bytes that one more layer of the vision tower, or of the decoder, keeps.
double of_a_layer(Experiment e, Tower Workload::*tower = &Workload::vision) {
    const double before = coca_memory(e).activations.si();
    ++(e.workload.*tower).layers;
    return coca_memory(e).activations.si() - before;
}

Experiment with(void (*change)(Experiment&)) {
    Experiment e = captioner();
    change(e);
    return e;
}

}  // namespace

// Norms with input and result 2 x 960; queries, keys, values and result 4 x 480; scores 720; inner
// rows around the activation 2 x 960.
TEST_CASE("a block of a captioner keeps its norms, its attention and its inner tensors") {
    CHECK(of_a_layer(captioner()) == 2 * 960 + 4 * 480 + 720 + 2 * 960);
    CHECK(of_a_layer(with([](Experiment& e) { e.runtime.autocast = true; })) ==
          2 * 960 + 4 * 480 + 3 * 720 + 2 * 960);
    CHECK(of_a_layer(with([](Experiment& e) { e.workload.vision.gated = true; })) ==
          2 * 960 + 4 * 480 + 720 + 4 * 960);
    CHECK(of_a_layer(with([](Experiment& e) { e.workload.vision.sub_norms = true; })) ==
          2 * 960 + 4 * 480 + 720 + 2 * 960 + 480 + 960);
    CHECK(of_a_layer(with([](Experiment& e) { e.parallelism.recompute = Recompute::full; })) ==
          480);
}

// Decoder: rows and inner rows are 5 x 4 x 4 x 2 = 160 bytes each, scores 5 x 4 x 4 x 2 = 160: 4 +
// 4 + 1 + 2 of them. The block that attends to two pooled patches has keys of 80 and scores of 5 x
// 4 x 2 x 2 = 80 bytes; the patches' norm counts 2, keys and values 2.
TEST_CASE("a layer of the decoder keeps a block and one that attends to the pooled patches") {
    const double own = 11 * 160, cross = (4 + 2 + 2) * 160 + (2 + 2) * 80 + 80;
    CHECK(of_a_layer(captioner(), &Workload::decoder) == own + cross);
}

// While a backward runs it holds two of the block's largest tensors: inner rows of 960, or under
// autocast scores of 2 x 720. A recomputed block also holds what it keeps. The loss holds its
// gradient twice: 40,000 logits are 160,000 bytes together, and twice that in fp32.
TEST_CASE("the fullest backward of a captioner, and its buckets") {
    const auto buffers = [](void (*change)(Experiment&)) {
        return coca_memory(with(change)).buffers.si();
    };
    CHECK(buffers([](Experiment&) {}) == 2 * 960);
    CHECK(buffers([](Experiment& e) { e.runtime.autocast = true; }) == 4 * 720);
    CHECK(buffers([](Experiment& e) { e.parallelism.recompute = Recompute::full; }) ==
          2 * 960 + 6480);
    CHECK(buffers([](Experiment& e) { e.workload.vocab = 2000; }) == 160'000);
    CHECK(buffers([](Experiment& e) {
              e.workload.vocab = 2000;
              e.runtime.autocast = true;
          }) == 320'000);
    const auto two = [](Experiment& e) {
        e.parallelism.dp = 2;
        e.runtime.gradients.bucket = BucketSize(Bytes(1000));
        e.runtime.exchanges.gradients = GradientOverlap::always;
    };
    CHECK(buffers(two) == 2 * 960 + 2000);
    CHECK(buffers([](Experiment& e) {
              e.parallelism.dp = 2;
              e.runtime.gradients.bucket = BucketSize(Bytes(1000));
              e.runtime.exchanges.gradients = GradientOverlap::never;
          }) == 2 * 960 + 1000);
}

// 200 logits are kept along with the loss's copy: 2 + 2 bytes, under autocast 2 + 4.
TEST_CASE("logits of a captioner are kept with the loss's") {
    const auto more = [](bool autocast) {
        Experiment e = captioner();
        e.runtime.autocast = autocast;
        const double before = coca_memory(e).activations.si();
        e.workload.vocab = 11;
        return coca_memory(e).activations.si() - before;
    };
    CHECK(more(false) == 20 * 4);
    CHECK(more(true) == 20 * 6);
}

// Each parameter has two bytes of weight and of gradient. Those that a rank owns also have 4 of the
// fp32 weight if training is in 16 bits, and 8 of two moments if the optimizer has them.
TEST_CASE("states of a captioner under ZeRO 1") {
    Experiment e = captioner();
    e.parallelism.dp = 2;
    const auto groups = parameter_groups(e);
    double owned = 0;
    for (const ParameterGroup& group : groups) owned += piece_elements(group, 2);
    REQUIRE(owned >= elements_of(groups) / 2);
    const auto optimizer = [&](Optimizer o, Dtype dtype) {
        e.workload.optimizer = o;
        e.workload.dtype = dtype;
        return coca_memory(e).optimizer.si() / owned;
    };
    CHECK(coca_memory(e).weights.si() == 2 * elements_of(groups));
    CHECK(coca_memory(e).gradients.si() == 2 * elements_of(groups));
    CHECK(optimizer(Optimizer::adam, Dtype::fp16) == 12);
    CHECK(optimizer(Optimizer::lamb, Dtype::fp16) == 12);
    CHECK(optimizer(Optimizer::sgd, Dtype::fp16) == 4);
    CHECK(optimizer(Optimizer::adam, Dtype::fp32) == 8);
    CHECK(optimizer(Optimizer::sgd, Dtype::fp32) == 0);
}
