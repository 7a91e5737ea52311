#include <catch2/catch.hpp>

#include "import/tables/memory_choices.h"
#include "import/tables/row_parts.h"
#include "sim/memory/allocator_forecast.h"

using namespace stepcast;

namespace {

// 4 layers of width 64, 4 heads of 16, inner 256, no vocabulary and positions to speak of; no
// biases.
Experiment small() {
    Experiment e;
    Workload& w = e.workload;
    w.kind = Workload::Kind::transformer;
    w.layers = 4;
    w.hidden = 64;
    w.heads = 4;
    w.ffn = 256;
    w.seq = 1024;
    w.positions = Positions::none;
    e.runtime.attention = AttentionKind::flash;
    w.linear_bias = w.qkv_bias = false;
    e.parallelism.dp = 2;
    e.parallelism.global_batch = 8;
    return e;
}

Bytes needed(const Experiment& e) {
    const MemoryUse use = memory_forecast(e);
    return use.peak + use.overheads;
}

}  // namespace

// A replica has 4 sequences.
TEST_CASE("an unstated micro-batch is the largest divisor that fits") {
    Experiment e = small();
    e.workload.seq = 1 << 16;  // beside which the allocator's segments are small
    const auto with = [&](int micro_batch) {
        e.parallelism.micro_batch = micro_batch;
        return needed(e);
    };
    const Bytes one = with(1), two = with(2), four = with(4);
    REQUIRE((one < two && two < four));
    const auto fitting = [&](Bytes memory) {
        e.cluster.gpu.memory = memory;
        return fitting_micro_batch(e);
    };
    CHECK(fitting(four) == 4);
    CHECK(fitting(0.8 * four) == 2);  // it frees what it holds before it fails
    CHECK(fitting(two) == 2);
    CHECK(fitting(0.8 * two) == 1);
    CHECK(fitting(Bytes(1)) == 1);
}

// Long sequences: each layer that is computed again keeps its input alone, while one is at work.
TEST_CASE("an unstated recompute is the least that fits") {
    Experiment e = small();
    e.workload.seq = 1 << 20;
    const auto need = [&](Recompute kind, int layers) {
        Experiment other = e;
        other.parallelism.recompute = kind;
        other.parallelism.recompute_layers = layers;
        return needed(other);
    };
    const auto with = [&](Bytes needed) {
        e.cluster.gpu.memory = needed;
        const ChosenRecompute c = fitting_recompute(e);
        return std::pair{c.kind, c.layers};
    };
    const Bytes none = need(Recompute::none, 0), one = need(Recompute::full, 1),
                two = need(Recompute::full, 2), three = need(Recompute::full, 3);
    REQUIRE((one < 0.99 * none && two < 0.99 * one && three < 0.99 * two));
    CHECK(with(1.001 * none) == std::pair{Recompute::none, 0});
    CHECK(with(0.9 * none) != std::pair{Recompute::none, 0});
    CHECK(with(1.001 * two) == std::pair{Recompute::full, 2});
    CHECK(with(1.001 * three) == std::pair{Recompute::full, 3});
    CHECK(with(Bytes(1e6)) == std::pair{Recompute::full, 0});
    e.runtime.attention = AttentionKind::plain;
    const Bytes scores = need(Recompute::none, 0), unscored = need(Recompute::selective, 0);
    REQUIRE(unscored < 0.9 * scores);
    CHECK(with(1.001 * scores) == std::pair{Recompute::none, 0});
    CHECK(with(0.95 * scores) == std::pair{Recompute::selective, 0});
    CHECK(with(0.99 * unscored).first == Recompute::full);
}

// What a forecast then says of the row is what chose it: the step fits.
TEST_CASE("a step of unstated recompute is forecast to fit where any recompute does") {
    Experiment e = small();
    e.workload.seq = 1 << 20;
    e.parallelism.recompute = Recompute::full;
    const Bytes least = memory_forecast(e).reserved;
    for (const double more : {1.02, 1.2, 1.5, 2.0}) {
        CAPTURE(more);
        e.cluster.gpu.memory = more * least;
        const ChosenRecompute chosen = fitting_recompute(e);
        Experiment taken = e;
        taken.parallelism.recompute = chosen.kind;
        taken.parallelism.recompute_layers = chosen.layers;
        CHECK(memory_forecast(taken).fits);
    }
}

// 18 bytes a weight, of which ZeRO 1 leaves 12 on each of two ranks. Of a framework without it, and
// where nothing fits, no stage is said to fit.
TEST_CASE("an unstated ZeRO stage is the least of the framework's that fits") {
    Experiment e = small();
    e.workload.hidden = 4096;
    e.workload.ffn = 16384;
    e.workload.seq = 64;
    e.workload.optimizer = Optimizer::adam;
    e.workload.dtype = Dtype::bf16;
    e.framework.can.zero = {0, 1};
    const auto with = [&](int stage) {
        Experiment other = e;
        other.parallelism.zero = stage;
        other.parallelism.recompute = Recompute::full;
        return needed(other);
    };
    const auto fitting = [&](Bytes memory) {
        e.cluster.gpu.memory = memory;
        return fitting_zero(e);
    };
    const Bytes none = with(0), one = with(1);
    REQUIRE(one < 0.9 * none);
    CHECK(fitting(none) == 0);
    CHECK(fitting(one) == 1);
    e.framework.can.zero = {0};
    CHECK(fitting(one) == std::nullopt);
    e.framework.can.zero = {0, 1};
    CHECK(fitting(Bytes(1e6)) == std::nullopt);
}
