// Effects that the tables of a PyTorch script show beyond the published laws, each compared with
// the law without it.

#include <catch2/catch.hpp>

#include "sim/costs/gemm_law.h"
#include "sim/costs/op_costs.h"

using namespace stepcast;

namespace {

Cluster device_of_scripts() {
    Cluster c;
    c.gpu.sms = 100;
    c.gpu.memory_bandwidth = BytesPerSecond(1e12);
    c.gpu.peaks[Dtype::fp32] = FlopsPerSecond(50e12);
    c.gpu.peaks[Dtype::tf32] = FlopsPerSecond(300e12);
    c.gpu.peaks[Dtype::bf16] = FlopsPerSecond(600e12);
    c.kernel.launch = Seconds(0);
    c.kernel.memory_efficiency = 1;
    return c;
}

double micros(const Op& op, const Cluster& c) {
    return op_time(op, Phase::forward, {}, c).si() * 1e6;
}

}  // namespace

// 10 MB at 1 TB/s: 10 us. Passes over rows reach 0.8 and strided passes 0.5 of the rate: 12.5 and
// 20 us.
TEST_CASE("rows and strided passes have rates of their own") {
    Cluster c = device_of_scripts();
    c.kernel.row_efficiency = 0.8;
    c.kernel.strided_efficiency = 0.5;
    const auto pass = [&](MemoryPass::Access access) {
        return micros(MemoryPass{Bytes(6e6), Bytes(4e6), access}, c);
    };
    CHECK(pass(MemoryPass::Access::stream) == Approx(10));
    CHECK(pass(MemoryPass::Access::rows) == Approx(12.5));
    CHECK(pass(MemoryPass::Access::strided) == Approx(20));
}

// A cache of 10 MB, twice as fast as memory: a pass of its size gets half of the gain, 1 + 1/2; at
// a hundredth of the size all of it, at ten times 1 / 1001.
TEST_CASE("passes that fit the L2 go at its rate") {
    Cluster c = device_of_scripts();
    c.kernel.cache = Bytes(10e6);
    c.kernel.cache_gain = 2;
    CHECK(micros(MemoryPass{Bytes(10e6), Bytes(0)}, c) == Approx(10 / 1.5));
    CHECK(micros(MemoryPass{Bytes(0.1e6), Bytes(0)}, c) == Approx(0.05).epsilon(1e-5));
    CHECK(micros(MemoryPass{Bytes(100e6), Bytes(0)}, c) == Approx(100 / (1 + 1 / 1001.0)));
}

// Sizes for which only arithmetic counts: the time is inverse to each rate.
TEST_CASE("layouts, fp32 and batches change the rate of a GEMM") {
    Cluster c = device_of_scripts();
    c.gpu.memory_bandwidth = BytesPerSecond(1e18);
    c.kernel.gemm_boost = 0;
    const auto time = [&](const Gemm& op) { return gemm_law_time(op, c, GemmSetting::step).si(); };
    const Gemm bf16{.m = 8192, .n = 8192, .k = 8192, .dtype = Dtype::bf16};
    Gemm nn = bf16, tn = bf16, fp32 = bf16, batch = bf16;
    nn.layout = Gemm::Layout::nn;
    tn.layout = Gemm::Layout::tn;
    fp32.dtype = Dtype::fp32;
    batch.batch = 4;
    const double before = time(bf16), fp32_before = time(fp32), batch_before = time(batch);
    CHECK(time(nn) == before);
    c.kernel.gemm_nn = 0.9;
    c.kernel.gemm_tn = 0.8;
    c.kernel.gemm_fp32 = 0.5;
    c.kernel.batched_gemm = 0.25;
    CHECK(time(bf16) == before);
    CHECK(time(nn) == Approx(before / 0.9));
    CHECK(time(tn) == Approx(before / 0.8));
    CHECK(time(fp32) == Approx(fp32_before / 0.5));
    CHECK(time(batch) == Approx(batch_before / 0.25));
}

TEST_CASE("a pair of events adds to a kernel of a table, not to one of a step") {
    Cluster c = device_of_scripts();
    const Gemm gemm{.m = 1024, .n = 1024, .k = 1024, .dtype = Dtype::bf16};
    const double alone = gemm_law_time(gemm, c).si(),
                 inside = gemm_law_time(gemm, c, GemmSetting::step).si();
    c.kernel.event = Seconds(3e-6);
    CHECK(gemm_law_time(gemm, c).si() == Approx(alone + 3e-6));
    CHECK(gemm_law_time(gemm, c, GemmSetting::step).si() == inside);
}

// 8 sequences of one head, 1000 keys, width 64, not causal: 2 x 8 x 1000^2 x 128 = 2.048 GFLOP. At
// 600 TFLOP/s, efficiency 0.5 and ramp 1000 (half): 13.65 us; twice that with exponentials that
// cost as much as a head's width. fp32: a third of tf32's 300 TFLOP/s, at 0.65: 65 x 0.25 TFLOP/s,
// 126 us.
TEST_CASE("fused attention pays for exponentials, and for fp32 with three products in tf32") {
    Cluster c = device_of_scripts();
    c.gpu.memory_bandwidth = BytesPerSecond(1e18);
    c.kernel.attention.efficiency = 0.5;
    c.kernel.attention.ramp = 1000;
    c.kernel.attention_v2 = 0.65;
    Attention op{8, 1, 1000, 1000, 64, false, false, Dtype::bf16, true};
    CHECK(micros(op, c) == Approx(13.653).epsilon(1e-3));
    c.kernel.attention.width = 64;
    CHECK(micros(op, c) == Approx(27.307).epsilon(1e-3));
    c.kernel.attention.width = 0;
    op.dtype = Dtype::fp32;
    CHECK(micros(op, c) == Approx(126.03).epsilon(1e-3));
}

// Exponentials that take as long as the products of a head of 64, and products at half the rate: a
// head of 64 takes (2 + 1) / 2 = 1.5 times the best kernel's time, one of 128 (2 x 2 + 1) / (2 + 1)
// = 1.667. At a third of the rate (Triton) they take 2 and 2.333. By blocks of queries the same
// holds: widths of 2 x 64 (2 + 2) and 2 x 64 (2 x 2 + 2).
TEST_CASE("kernels of another generation lose on the products of a pair, not on its exponential") {
    Cluster c = device_of_scripts();
    c.gpu.memory_bandwidth = BytesPerSecond(1e18);
    c.kernel.launch = Seconds(0);
    c.kernel.attention.efficiency = 0.5;
    c.kernel.attention.width = 64;
    c.kernel.attention_v2 = 0.5;
    Attention narrow{8, 1, 1000, 1000, 64, false, false, Dtype::bf16, true}, wide = narrow;
    wide.head_dim = 128;
    const auto slower = [&](Attention op, FlashGeneration generation) {
        const double best = micros(op, c);
        op.generation = generation;
        return micros(op, c) / best;
    };
    for (const int tile : {0, 64}) {
        INFO("tile " << tile);
        c.kernel.attention.tile = tile;
        c.kernel.attention_triton = 0;
        CHECK(slower(narrow, FlashGeneration::second) == Approx(1.5));
        CHECK(slower(wide, FlashGeneration::second) == Approx(5.0 / 3));
        CHECK(slower(wide, FlashGeneration::triton) == Approx(5.0 / 3));
        c.kernel.attention_triton = 1.0 / 3;
        CHECK(slower(narrow, FlashGeneration::triton) == Approx(2));
        CHECK(slower(wide, FlashGeneration::triton) == Approx(7.0 / 3));
    }
}
