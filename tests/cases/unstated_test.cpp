#include "cases/row_parts.h"

#include <catch2/catch.hpp>

using namespace stepcast;

namespace {

// 4 layers of width 64, 4 heads of 16, inner 256, no vocabulary and positions to speak of; no biases.
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
    w.attention = AttentionKind::flash;
    w.linear_bias = w.qkv_bias = false;
    e.parallelism.dp = 2;
    e.parallelism.global_batch = 8;
    e.cluster.gpu.memory = parse_bytes("5 GiB");
    return e;
}

constexpr double reserve = 4.0 * (1 << 30);

}  // namespace

// Weights: 4 layers x (4 x 64^2 + 2 x 64 x 256 + 4 x 64) + 128 = 197,760, of 2 + 4 + 12 bytes.
// A token and layer: 10 x 64 outside, 2 x 16 x (2 x 4 + 2 x 4) + 2 x 2 x 256 inside = 640 + 512 + 1024 = 2176 bytes.
TEST_CASE("the memory estimate is states and kept activations") {
    Experiment e = small();
    CHECK(estimated_memory(e).si() == 197'760 * 18 + 1024 * 4 * 2176 + reserve);
    e.parallelism.zero = 1;  // the optimizer's 12 bytes over two ranks
    CHECK(estimated_memory(e).si() == 197'760 * 12 + 1024 * 4 * 2176 + reserve);
    e.parallelism.zero = 2;  // and the gradients
    CHECK(estimated_memory(e).si() == 197'760 * 10 + 1024 * 4 * 2176 + reserve);
    e.parallelism.zero = 3;
    CHECK(estimated_memory(e).si() == 197'760 * 9 + 1024 * 4 * 2176 + reserve);
    e.parallelism.zero = 0;
    e.parallelism.recompute = Recompute::full;  // inputs of 128 bytes, and one layer at work
    CHECK(estimated_memory(e).si() == 197'760 * 18 + 1024 * (4 * 128 + 2176) + reserve);
    e.parallelism.recompute_layers = 1;
    CHECK(estimated_memory(e).si() == 197'760 * 18 + 1024 * (128 + 3 * 2176 + 2176) + reserve);
    e.parallelism.recompute = Recompute::none;
    e.workload.attention = AttentionKind::plain;  // 5 bytes of each of 4 x 1024 scores
    CHECK(estimated_memory(e).si() == 197'760 * 18 + 1024 * 4 * (2176 + 5 * 4 * 1024) + reserve);
}

// Two stages hold two layers each, of two micro-batches in flight: as much as four layers of one.
TEST_CASE("the memory estimate counts the micro-batches in flight on the first stage") {
    Experiment e = small();
    e.parallelism.pp = 2;
    CHECK(estimated_memory(e).si() == 197'760 / 2 * 18 + 1024 * 4 * 2176 + reserve);
    e.parallelism.vp = 2;  // 2 + (2 - 1) / 2 micro-batches
    CHECK(estimated_memory(e).si() == 197'760 / 2 * 18 + 1024 * 2.5 * 2 * 2176 + reserve);
    e.parallelism.global_batch = 2;  // but there is one only
    CHECK(estimated_memory(e).si() == 197'760 / 2 * 18 + 1024 * 2 * 2176 + reserve);
}

// A sequence keeps 4 x 1024 x 2176 = 8.9 MB beside 3.6 MB of states; a replica has 4 sequences.
TEST_CASE("an unstated micro-batch is the largest divisor that fits") {
    Experiment e = small();
    CHECK(fitting_micro_batch(e) == 4);
    e.cluster.gpu.memory = Bytes(reserve + 30e6);
    CHECK(fitting_micro_batch(e) == 2);
    e.cluster.gpu.memory = Bytes(reserve + 20e6);
    CHECK(fitting_micro_batch(e) == 1);
    e.cluster.gpu.memory = Bytes(1);
    CHECK(fitting_micro_batch(e) == 1);
}

// Long sequences: a layer of 1 << 20 tokens keeps 2.28 GB, recomputed 0.13 GB and once 2.28 at work. With 4.3 GB beside:
// none 13.42, one layer 13.56, two 11.41, three 9.26, all 7.11 GB; 15 % more than the device's are let through.
TEST_CASE("an unstated recompute is the least that fits") {
    Experiment e = small();
    e.workload.seq = 1 << 20;
    const auto with = [&](double capacity) {
        e.cluster.gpu.memory = Bytes(capacity);
        const ChosenRecompute c = fitting_recompute(e);
        return std::pair{c.kind, c.layers};
    };
    CHECK(with(13.5e9 / 1.15) == std::pair{Recompute::none, 0});
    CHECK(with(13.4e9 / 1.15) == std::pair{Recompute::full, 2});
    CHECK(with(11.3e9 / 1.15) == std::pair{Recompute::full, 3});
    CHECK(with(9.2e9 / 1.15) == std::pair{Recompute::full, 0});
    CHECK(with(1e9) == std::pair{Recompute::full, 0});
    e.workload.attention = AttentionKind::plain;
    e.workload.seq = 1 << 14;  // scores of 5 x 4 x 2^28 bytes a layer: 21.5 GB; without them 0.14 GB in all
    CHECK(with(6e9) == std::pair{Recompute::selective, 0});
}
