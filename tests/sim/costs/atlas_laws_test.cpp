// Laws of single kernels that the atlas of measured kernels required, checked by hand.
#include <catch2/catch.hpp>

#include <cmath>

#include "model/routing.h"
#include "sim/costs/attention_law.h"
#include "sim/costs/cast_law.h"
#include "sim/costs/clock.h"
#include "sim/costs/expert_layer_law.h"
#include "sim/costs/gemm_law.h"

using namespace stepcast;

namespace {

// 100 SMs of 1 TFLOP/s each in 16 bits, twice that in fp8; 1 TB/s.
Cluster device() {
    Cluster c;
    c.gpu.sms = 100;
    c.gpu.peaks[Dtype::fp16] = c.gpu.peaks[Dtype::bf16] = FlopsPerSecond(1e14);
    c.gpu.peaks[Dtype::fp8] = FlopsPerSecond(2e14);
    c.gpu.memory_bandwidth = BytesPerSecond(1e12);
    c.kernel.launch = Seconds(0);
    c.kernel.memory_efficiency = 1;
    return c;
}

}  // namespace

TEST_CASE(
    "above its power limit a kernel is slower by the root of what it draws, in part when it is "
    "short") {
    Cluster c = device();
    c.power = {.limit = 200, .idle = 50, .flop = 2, .byte = 0, .response = Seconds(1e-3)};
    // 3e11 FLOP in 1 ms at 2 pJ draw 600 W; the limit leaves 150 W: sqrt(4).
    CHECK(sustained_slowdown(Flops(3e11), Dtype::bf16, Bytes(0), Seconds(1e-3), c) == Approx(2));
    // fp8 operations take half the energy each.
    CHECK(sustained_slowdown(Flops(3e11), Dtype::fp8, Bytes(0), Seconds(1e-3), c) ==
          Approx(std::sqrt(2)));
    CHECK(sustained_slowdown(Flops(3e10), Dtype::bf16, Bytes(0), Seconds(1e-3), c) == 1);
    // A higher peak of another type changes nothing: neither fp16's for bf16 nor that of 16 bits
    // for fp8.
    Cluster more = c;
    more.gpu.peaks[Dtype::fp16] = FlopsPerSecond(4e14);
    CHECK(sustained_slowdown(Flops(3e11), Dtype::bf16, Bytes(0), Seconds(1e-3), more) == Approx(2));
    CHECK(sustained_slowdown(Flops(3e11), Dtype::fp8, Bytes(0), Seconds(1e-3), more) ==
          Approx(std::sqrt(2)));
    CHECK(burst_time(Seconds(1e-3), 2, c.power).si() == Approx(1.5e-3));
    CHECK(burst_time(Seconds(1e-6), 2, c.power).si() == Approx(1e-6).epsilon(0.002));
    c.power.limit = 0;
    CHECK(sustained_slowdown(Flops(3e11), Dtype::bf16, Bytes(0), Seconds(1e-3), c) == 1);
}

// 2 * 8192^3 FLOP at 1e14 per second take 11 ms and draw 200 W, of which 150 W are allowed: a
// step's clock is the same whatever else it loses.
TEST_CASE("what a step loses beside its clock gives the chip no rest") {
    Cluster c = device();
    c.kernel.gemm_efficiency = 1;
    c.kernel.gemm_k0 = 0;
    c.power = {.limit = 200, .idle = 50, .flop = 2, .byte = 0, .response = Seconds(1e-3)};
    const Gemm gemm{8192, 8192, 8192, 1, Dtype::bf16};
    const Seconds whole = gemm_law_time(gemm, c, GemmSetting::step);
    CHECK(whole > gemm_law_time(gemm, c, GemmSetting::alone));
    c.kernel.training_gemm = 0.5;
    CHECK(gemm_law_time(gemm, c, GemmSetting::step).si() == Approx(2 * whole.si()));
}

// 2e9 FLOP at 2 pJ; in 10 us the limit allows no more than 150 W. A fifth of 150 W in any kernel is
// 30 mJ in 1 ms.
TEST_CASE("an op takes its energy and what any kernel draws, or what the limit leaves") {
    Cluster c = device();
    c.power = {
        .limit = 200, .idle = 50, .flop = 2, .byte = 0, .busy_share = 0, .response = Seconds(1e-3)};
    const Op gemm = Gemm{1000, 1000, 1000, 1, Dtype::bf16};
    CHECK(op_energy(gemm, Seconds(1e-3), c).si() == Approx(4e-3));
    CHECK(op_energy(gemm, Seconds(1e-5), c).si() == Approx(1.5e-3));
    CHECK(op_energy(HostWork{}, Seconds(1), c) == Joules(0));
    c.power.busy_share = 0.2;
    CHECK(op_energy(gemm, Seconds(1e-3), c).si() == Approx(34e-3));
    CHECK(op_energy(gemm, Seconds(1e-5), c).si() == Approx(1.5e-3));
    CHECK(op_energy(HostWork{}, Seconds(1), c) == Joules(0));
    c.power.limit = 0;
    CHECK(op_energy(gemm, Seconds(1e-3), c) == Joules(0));
}

TEST_CASE("a smaller tile loses what it loads more of") {
    CHECK(tile_rate(256, 128, 20) == 1);
    CHECK(tile_rate(256, 256, 20) == 1);
    CHECK(tile_rate(128, 128, 64) == Approx(1 / (1 + 64.0 / 256)));
}

TEST_CASE(
    "causal attention: blocks of queries see what lies before them, over all SMs or the longest "
    "alone") {
    Cluster c = device();
    c.gpu.memory_bandwidth = BytesPerSecond(1e14);
    AttentionKernel kernel{
        .name = {}, .launch = {}, .efficiency = 1, .ramp = 0, .token = {}, .tile = 64};
    const auto seconds = [&](long heads, long window) {
        AttentionShape shape{Attention{1, heads, 256, 256, 64, true, false, Dtype::bf16, true},
                             heads};
        shape.op.window = window;
        return attention_law_time(shape, kernel, c, GemmSetting::step).si();
    };
    // Four blocks see 64, 128, 192, 256 keys: 640 * 64 pairs per head, 4 * 64 FLOP each. 1,000
    // heads over 100 SMs of 1 TFLOP/s.
    CHECK(seconds(1000, 0) == Approx(1000.0 * 640 * 64 * 256 / 1e14));
    // One head takes its longest block's time: 64 queries of 256 keys, on one SM.
    CHECK(seconds(1, 0) == Approx(64 * 256 * 256 / 1e12));
    // A window of 32 keys, plus a tile of 128 at its edges and the block's own queries: 64, 128,
    // 192, 224 keys.
    CHECK(seconds(1000, 32) == Approx(1000.0 * 608 * 64 * 256 / 1e14).epsilon(0.03));
    // With a window in three of four layers: the mean.
    AttentionShape most{Attention{1, 1000, 256, 256, 64, true, false, Dtype::bf16, true}, 1000};
    most.op.window = 32;
    most.op.window_share = 0.75;
    CHECK(attention_law_time(most, kernel, c, GemmSetting::step).si() ==
          Approx(0.75 * seconds(1000, 32) + 0.25 * seconds(1000, 0)));
    // exponentials take as long as products of width 64; a head of 128 would keep its rate
    kernel.width = 64;
    CHECK(seconds(1000, 0) == Approx(2 / 1.5 * 1000.0 * 640 * 64 * 256 / 1e14));
}

// 1,000 heads of four blocks over 100 SMs of 1 TFLOP/s; the longest block has 64 queries of 256
// keys, 4 * 64 FLOP per pair.
TEST_CASE("attention: the longest block is exposed by a share, and masked windows save nothing") {
    Cluster c = device();
    c.gpu.memory_bandwidth = BytesPerSecond(1e14);
    AttentionKernel kernel{.name = {},
                           .launch = {},
                           .efficiency = 1,
                           .ramp = 0,
                           .corner = 0.5,
                           .token = {},
                           .tile = 64};
    AttentionShape shape{Attention{1, 1000, 256, 256, 64, true, false, Dtype::bf16, true}, 1000};
    const auto seconds = [&] {
        return attention_law_time(shape, kernel, c, GemmSetting::step).si();
    };
    const double all = 1000.0 * 640 * 64 * 256 / 1e14, longest = 64.0 * 256 * 256 / 1e12;
    CHECK(seconds() == Approx(all + 0.5 * longest));
    shape.op.window = 32;
    CHECK(seconds() < all);
    kernel.slides = false;
    CHECK(seconds() == Approx(all + 0.5 * longest));
    // 25 heads: every block has an SM, and the longest block ends last. 26 heads: 104 blocks share
    // 100 SMs.
    shape.op.window = 0;
    shape.op.heads = shape.kv_heads = 25;
    CHECK(seconds() == Approx(longest));
    shape.op.heads = shape.kv_heads = 26;
    CHECK(seconds() == Approx(26 * all / 1000 + 0.5 * longest));
}

// Per pair the products of a head of 128 count 2 x 128 and the exponentials, as wide as 64, 2 x 64.
// fp8's peak is twice as high, but its products reach half the share and take as long. At the same
// share they take half the time; the launch of the casts takes 5 us.
TEST_CASE(
    "attention in fp8: products at their own share of its peak, exponentials as before, casts "
    "launched") {
    Cluster c = device();
    c.gpu.memory_bandwidth = BytesPerSecond(1e14);
    c.gpu.peaks[Dtype::fp8] = 2 * c.gpu.peaks[Dtype::bf16];
    AttentionKernel kernel{.name = {},
                           .launch = {},
                           .efficiency = 0.8,
                           .ramp = 0,
                           .width = 64,
                           .token = {},
                           .fp8_efficiency = 0.4,
                           .tile = 64};
    AttentionShape shape{Attention{1, 1000, 256, 256, 128, true, false, Dtype::bf16, true}, 1000};
    const auto seconds = [&] {
        return attention_law_time(shape, kernel, c, GemmSetting::step).si();
    };
    const double sixteen = seconds();
    shape.op.dtype = Dtype::fp8;
    CHECK(seconds() == Approx(sixteen));
    kernel.fp8_efficiency = 0.8;
    kernel.fp8_launch = Seconds(5e-6);
    CHECK(seconds() == Approx(5e-6 + sixteen * (0.5 * 256 + 128) / (256 + 128)));
}

// Blocks of 64 queries with 256 keys each, four per head, 4 * 64 FLOP per pair; 100 SMs of 1
// TFLOP/s: 60 heads are 2.4 waves, 10 are 0.4.
TEST_CASE("attention without a mask runs in whole waves of blocks") {
    Cluster c = device();
    c.gpu.memory_bandwidth = BytesPerSecond(1e14);
    AttentionKernel kernel{
        .name = {}, .launch = {}, .efficiency = 1, .ramp = 0, .corner = 1, .token = {}, .tile = 64};
    const auto waves = [&](long heads) {
        const AttentionShape shape{
            Attention{1, heads, 256, 256, 64, false, false, Dtype::bf16, true}, heads};
        return attention_law_time(shape, kernel, c, GemmSetting::step).si() /
               (64.0 * 256 * 256 / 1e12);
    };
    CHECK(waves(60) == Approx(3));
    CHECK(waves(50) == Approx(2));
    CHECK(waves(10) == Approx(1));
    kernel.corner = 0.25;
    CHECK(waves(60) == Approx(2.4 + 0.6 * 0.25));
}

// fp32 runs as three products in tf32 with kernels of the second generation (here half as fast),
// and without tf32 at fp32's own rate.
TEST_CASE("attention in fp32 runs on the tensor cores where there are any for it") {
    Cluster c = device();
    c.gpu.memory_bandwidth = BytesPerSecond(1e14);
    c.gpu.peaks[Dtype::fp32] = FlopsPerSecond(2e13);
    c.kernel.attention_v2 = 0.5;
    const AttentionKernel kernel{
        .name = {}, .launch = {}, .efficiency = 1, .ramp = 0, .token = {}, .tile = 64};
    const AttentionShape shape{Attention{1, 1000, 256, 256, 64, true, false, Dtype::fp32, true},
                               1000};
    const auto rate = [&] {
        return 1000.0 * 640 * 64 * 256 /
               attention_law_time(shape, kernel, c, GemmSetting::step).si();
    };
    CHECK(rate() == Approx(2e13));
    c.gpu.peaks[Dtype::tf32] = FlopsPerSecond(9e13);
    CHECK(rate() == Approx(9e13 / 3 / 2));
}

// 50 heads of four blocks are two waves over 100 SMs. Of 1,024 keys a block sees a window of 32, a
// tile of 128 that the window's edges cut, and its own 64 queries: 224. It never sees more keys
// than exist, and all of them where the kernel does not slide.
TEST_CASE("attention without a mask: a block sees its window, a tile and its own queries") {
    Cluster c = device();
    c.gpu.memory_bandwidth = BytesPerSecond(1e14);
    AttentionKernel kernel{
        .name = {}, .launch = {}, .efficiency = 1, .ramp = 0, .corner = 1, .token = {}, .tile = 64};
    const auto seen = [&](long keys, long window) {
        AttentionShape shape{Attention{1, 50, 256, keys, 64, false, false, Dtype::bf16, true}, 50};
        shape.op.window = window;
        return attention_law_time(shape, kernel, c, GemmSetting::step).si() /
               (2 * 64.0 * 256 / 1e12);
    };
    CHECK(seen(1024, 32) == Approx(224));
    CHECK(seen(1024, 0) == Approx(1024));
    CHECK(seen(192, 32) == Approx(192));
    kernel.slides = false;
    CHECK(seen(1024, 32) == Approx(1024));
}

// 1,000 heads of 256 queries and 256 keys, 2 * 64 values of 2 B each: 131 MB for the passes beside
// the kernel, at 0.85 of 1 TB/s. An L2 that holds half of such passes makes them 1.5 times as fast.
TEST_CASE("attention: passes beside the kernel run faster where the L2 holds their operands") {
    Cluster c = device();
    c.gpu.memory_bandwidth = BytesPerSecond(1e12);
    AttentionKernel kernel{
        .name = {}, .launch = {}, .efficiency = 1, .ramp = 0, .token = {}, .tile = 64};
    AttentionShape shape{Attention{1, 1000, 256, 256, 64, true, false, Dtype::bf16, true}, 1000};
    const auto beside = [&](double times) {
        kernel.traffic = kernel.cache = times;
        return attention_law_time(shape, kernel, c, GemmSetting::step).si();
    };
    const double bytes = 1000.0 * (256 + 256) * 128 * 2;
    c.kernel.cast.cache = Bytes(bytes);
    CHECK(beside(1) - beside(0) == Approx(bytes / (0.85e12 * 1.5)));
    c.kernel.cast.cache = Bytes(0);
    CHECK(beside(1) - beside(0) == Approx(bytes / 0.85e12));
    shape.op.dtype = Dtype::fp8;  // the same bytes, and half as many again for a cast
    kernel.fp8_traffic = 1.5;
    CHECK(beside(1) - beside(0) == Approx(1.5 * bytes / 0.85e12));
}

TEST_CASE("attention: a head's width without tiles, and what is written to a cache beside it") {
    Cluster c = device();
    AttentionKernel kernel{
        .name = {}, .launch = {}, .efficiency = 1, .ramp = 0, .token = {}, .odd = 0.25, .tile = 64};
    const auto seconds = [&](long width, Dtype dtype = Dtype::bf16) {
        return attention_law_time(
                   {Attention{1, 1000, 4096, 4096, width, false, false, dtype, true}, 1000}, kernel,
                   c, GemmSetting::step)
            .si();
    };
    CHECK(seconds(72) == Approx(4 * seconds(96)));  // both widths occupy 96 on the tensor cores
    CHECK_FALSE(odd_width(Attention{1, 1, 1, 1, 64, true, false, Dtype::bf16, true}));
    CHECK(odd_width(Attention{1, 1, 1, 1, 64, true, false, Dtype::fp8, true}));
    CHECK_FALSE(odd_width(Attention{1, 1, 1, 1, 128, true, false, Dtype::fp8, true}));
    Attention latent{1, 1, 1, 1, 192, true, false, Dtype::fp8, true};
    latent.value_dim = 128;
    CHECK_FALSE(odd_width(latent));
    // 2 of 8 heads hold keys, which no L2 keeps: 3 times 4096 * 2 * 128 * 2 bytes at 0.85 of 1
    // TB/s, and 1 ns for each of 4096 tokens.
    c.kernel.cast.cache = Bytes(0);
    const AttentionShape grouped{Attention{1, 8, 4096, 4096, 64, true, false, Dtype::bf16, true},
                                 2};
    const double before = attention_law_time(grouped, kernel, c, GemmSetting::step).si();
    kernel.cache = 3;
    kernel.token = Seconds(1e-9);
    CHECK(attention_law_time(grouped, kernel, c, GemmSetting::step).si() - before ==
          Approx(3 * 2 * 4096 * 128 * 2 / 0.85e12 + 4096e-9));
    // Two heads of 64 keys fill a quarter of a block of 512, and more than one of 100.
    kernel.token_block = 512;
    CHECK(attention_law_time(grouped, kernel, c, GemmSetting::step).si() - before ==
          Approx(3 * 2 * 4096 * 128 * 2 / 0.85e12 + 1024e-9));
    kernel.token_block = 100;
    CHECK(attention_law_time(grouped, kernel, c, GemmSetting::step).si() - before ==
          Approx(3 * 2 * 4096 * 128 * 2 / 0.85e12 + 4096e-9));
    CHECK(alone(kernel).cache == 0);
    CHECK(alone(kernel).token == Seconds(0));
}

TEST_CASE("a cast: launches and bytes by how its scale is found") {
    Cluster c = device();
    c.kernel.cast = {.launch = Seconds(1e-6),
                     .efficiency = 1,
                     .cache = Bytes(0),
                     .cache_gain = 1,
                     .row = Seconds(1e-6)};
    CHECK(cast_time(1000, 1000, CastScale::given, c).si() == Approx(1e-6 + 3e-6));
    CHECK(cast_time(1000, 1000, CastScale::tensor, c).si() == Approx(6e-6 + 6.6e-6));
    // ten rows an SM
    CHECK(cast_time(1000, 1000, CastScale::rows, c).si() == Approx(1.55e-6 + 1e-5));
    CHECK(cast_time(1000, 1000, CastScale::given_rows, c).si() == Approx(1.2e-6 + 4e-6));
    c.kernel.fp8_blocks = {.efficiency = 1, .cast_launch = Seconds(2e-6), .cast_bytes = 4};
    CHECK(input_cast_time(1000, 1000, Dtype::fp8, true, c).si() == Approx(2e-6 + 4e-6));
    // The L2 is as large as the 3 MB and thrice as fast as the memory: half of the gain at this
    // size, so 1 + 2 / 2 of the rate.
    c.kernel.cast.cache = Bytes(3e6);
    c.kernel.cast.cache_gain = 3;
    CHECK(input_cast_time(1000, 1000, Dtype::fp8, true, c).si() == Approx(2e-6 + 2e-6));
    c.kernel.fp8_blocks.cast_row = Seconds(3e-7);  // ten rows an SM
    CHECK(input_cast_time(1000, 1000, Dtype::fp8, true, c).si() == Approx(2e-6 + 2e-6 + 3e-6));
}

// 1.6 us and 6.3 bytes per element at half of 1 TB/s; 1,000 rows are no multiple of 32.
TEST_CASE("a release that lays out scales apart takes a pass more, and longer for ragged rows") {
    Cluster c = device();
    c.kernel.cast.efficiency = 0.5;
    CHECK(scale_layout_time(1024, 1000, c).si() == Approx(1.6e-6 + 12.6e-12 * 1024000));
    CHECK(scale_layout_time(1000, 1000, c).si() == Approx(1.6e-6 + 8e-6 + 12.6e-6));
}

// At 1 TB/s with an L2 of 0.5 MB: a million elements are 6.6 MB at half the rate, 13.2 us; 0.5 MB
// of the output take 2 bytes more each, 1 us. A cache of 3 MB, the size of the input, holds half of
// it: 13.2 us at 1 + (3 - 1) / 2 of the rate and half of the 1 us.
TEST_CASE("a cast that looks for one scale of all has a rate of its own") {
    Cluster c = device();
    c.gpu.l2 = Bytes(5e5);
    c.kernel.cast = {.launch = Seconds(1e-6),
                     .efficiency = 1,
                     .cache = Bytes(0),
                     .cache_gain = 1,
                     .row = Seconds(1e-6),
                     .tensor_efficiency = 0.5,
                     .tensor_gain = 3,
                     .tensor_written = 2};
    CHECK(cast_time(1000, 1000, CastScale::tensor, c).si() == Approx(6e-6 + 13.2e-6 + 1e-6));
    CHECK(cast_time(1000, 1000, CastScale::given, c).si() == Approx(1e-6 + 3e-6));
    c.kernel.cast.cache = Bytes(3e6);
    CHECK(cast_time(1000, 1000, CastScale::tensor, c).si() == Approx(6e-6 + 6.6e-6 + 0.5e-6));
    // all in the L2
    CHECK(cast_time(10, 1000, CastScale::tensor, c).si() == Approx(6e-6 + 0.044e-6).epsilon(1e-3));
    c.kernel.cast.tensor_efficiency = 0;
    CHECK(cast_time(1000, 1000, CastScale::tensor, c).si() == Approx(6e-6 + 6.6e-6));
}

TEST_CASE(
    "an expert layer rounds each expert's rows up to a tile and reads the weights of those that "
    "have some") {
    Cluster c = device();
    ExpertKernel kernel{.name = {},
                        .launch = Seconds(1e-5),
                        .efficiency = 1,
                        .k0 = 0,
                        .tile_reuse = 0,
                        .traffic = 1,
                        .passes = 0};
    ExpertLayer one{{expert_load({1})}, 1, 4096, 4096, 5, 1, Dtype::bf16, 2}, many = one;
    many.loads = {expert_load({1, 1, 1, 1, 0})};
    const double weights = 3 * 4096.0 * 4096 * 2 / 1e12;  // memory-bound
    CHECK(expert_layer_time(one, kernel, c).si() - 1e-5 == Approx(weights).epsilon(0.1));
    CHECK(expert_layer_time(many, kernel, c).si() - 1e-5 == Approx(4 * weights).epsilon(0.1));
}

// 100 rows of one expert are 1, 2, 4 and 7 tiles of 128, 64, 32 and 16 rows. Up: 25600 columns, 200
// of 128, on 100 SMs; 14 waves of 16 x 128 are the least arithmetic. Down: 1920 columns, 15 of 128;
// tiles of 16 rows are 1.05 waves, and 0.3 of the second wave's idle 0.95 are lost: 1.335. An SM
// does 0.5 TFLOP/s. Memory at half of 1 TB/s moves the weights, two bytes each, and the rows in and
// out; arithmetic and memory meet in a corner of 0.4. Two further passes move 100 rows of 2 hidden
// + 3 ffn, and 7 tokens in and out.
TEST_CASE("an expert layer takes its launches, two products and its passes") {
    Cluster c = device();
    const ExpertKernel kernel{.name = {},
                              .launch = Seconds(1e-5),
                              .efficiency = 0.5,
                              .k0 = 40,
                              .tile_reuse = 0,
                              .traffic = 0.5,
                              .passes = 2};
    const double hidden = 1920, ffn = 12800;
    ExpertLayer layer{{expert_load({100})}, 7, 1920, 12800, 1, 1, Dtype::bf16, 2};
    const auto corner = [](double a, double b) {
        return std::max(a, b) * std::pow(1 + std::pow(std::min(a, b) / std::max(a, b), 2.5), 0.4);
    };
    const double wave = 2 * 16 * 128 / 0.5e12;
    const double up = corner(14 * wave * (hidden + 40),
                             (2 * ffn * hidden * 2 + 100 * (hidden * 2 + 2 * ffn * 2)) / 0.5e12);
    const double down = corner(1.335 * wave * (ffn + 40),
                               (ffn * hidden * 2 + 100 * (ffn * 2 + hidden * 2)) / 0.5e12);
    const double passes = 2 * 2 * (100 * (2 * hidden + 3 * ffn) + 2 * 7 * hidden) / 0.85e12;
    CHECK(expert_layer_time(layer, kernel, c).si() ==
          Approx(1e-5 + up + down + passes).epsilon(1e-9));
    layer.loads.push_back(layer.loads.front());  // the mean of two draws that are alike
    CHECK(expert_layer_time(layer, kernel, c).si() ==
          Approx(1e-5 + up + down + passes).epsilon(1e-9));
    layer.loads.clear();
    CHECK(expert_layer_time(layer, kernel, c).si() == Approx(1e-5));
}

// One product up and down of one expert with 100 rows, on 64 SMs, with arithmetic alone at 1
// TFLOP/s per SM. Two tiles of 64 rows by 64 of 4096 columns are 128 blocks, two waves; up has
// twice the columns. With no more tokens than experts tiles have 16 rows: 7 * 64 = 448 blocks,
// seven waves, 14 up.
TEST_CASE(
    "an expert layer of a kernel with a table of tiles takes the one that its number of tokens "
    "names") {
    Cluster c = device();
    c.gpu.sms = 64;
    c.gpu.peaks[Dtype::bf16] = FlopsPerSecond(64e12);
    c.gpu.memory_bandwidth = BytesPerSecond(1e18);
    const ExpertKernel kernel{.name = {},
                              .launch = Seconds(0),
                              .efficiency = 1,
                              .k0 = 0,
                              .tile_reuse = 0,
                              .traffic = 1,
                              .passes = 0,
                              .tabled = true};
    ExpertLayer layer{{expert_load({100})}, 100, 4096, 4096, 99, 3, Dtype::bf16, 2};
    CHECK(expert_layer_time(layer, kernel, c).si() == Approx(6 * 2 * 64 * 64 * 4096 / 1e12));
    layer.experts = 100;
    CHECK(expert_layer_time(layer, kernel, c).si() == Approx(21 * 2 * 16 * 64 * 4096 / 1e12));
    // Passes move the 300 rows of all ranks, 2 * 4096 + 3 * 4096 elements of two bytes each, and
    // 100 tokens in and out.
    ExpertKernel passing = kernel;
    passing.passes = 1;
    c.gpu.memory_bandwidth = BytesPerSecond(1e15);
    CHECK((expert_layer_time(layer, passing, c) - expert_layer_time(layer, kernel, c)).si() ==
          Approx(2 * (300.0 * 5 + 100 * 2) * 4096 / 0.85e15));
}

// Three experts of 100 rows: two tiles of 64 each, with memory at 1 TB/s alone. An expert's up
// matrix is 2 * 1920 * 12800 * 2 = 98 MB, of which an L2 of 126 MB holds 1 / (1 + 0.78^3) = 0.68;
// of the down matrix, half as large, it holds 0.94. The second tile reads the rest again, and all
// of it where no L2 is stated.
TEST_CASE(
    "an expert layer of kernels with tiles of few rows reads weights again that the L2 does not "
    "hold") {
    Cluster c = device();
    c.gpu.l2 = Bytes(126e6);
    c.gpu.peaks[Dtype::bf16] = FlopsPerSecond(1e30);
    const ExpertKernel once{.name = {},
                            .launch = {},
                            .efficiency = 1,
                            .k0 = 0,
                            .tile_reuse = 0,
                            .traffic = 1,
                            .passes = 0};
    ExpertKernel again = once;
    again.reloads = true;
    const ExpertLayer layer{{expert_load({100, 100, 100})}, 300, 1920, 12800, 3, 1, Dtype::bf16, 2};
    const auto lost = [](double bytes) { return 1 - 1 / (1 + std::pow(bytes / 126e6, 3)); };
    const double up = 2 * 1920 * 12800.0 * 2, down = up / 2;
    CHECK((expert_layer_time(layer, again, c) - expert_layer_time(layer, once, c)).si() ==
          Approx(3 * (lost(up) * up + lost(down) * down) / 1e12));
    c.gpu.l2 = {};
    CHECK((expert_layer_time(layer, again, c) - expert_layer_time(layer, once, c)).si() ==
          Approx(3 * (up + down) / 1e12));
}

// An empty product takes its launch of 3 us; a kernel that a script issues ahead never appears
// shorter than the call.
TEST_CASE("what a script launches ahead takes its kernel's time or its call's, in tables only") {
    Cluster c = device();
    c.kernel.launch = Seconds(3e-6);
    c.kernel.gemm_k0 = 0;
    const Gemm small{1, 1, 1, 1, Dtype::bf16}, large{8192, 8192, 8192, 1, Dtype::bf16};
    const Seconds of_small = gemm_law_time(small, c), of_large = gemm_law_time(large, c);
    c.kernel.call_ahead = Seconds(3e-5);
    CHECK(of_small < Seconds(4e-6));
    CHECK(gemm_law_time(small, c) == Seconds(3e-5));
    CHECK(gemm_law_time(large, c) == of_large);
    CHECK(gemm_law_time(small, c, GemmSetting::step) < Seconds(4e-6));
}

TEST_CASE("power-law loads are drawn for every expert: the logarithm is uniform at exponent 1") {
    RoutingSpec spec;
    spec.kind = RoutingSpec::Kind::power_law;
    spec.skew = 1;
    int few = 0, sum = 0;
    for (int draw = 0; draw < 20; ++draw)
        for (const int load : make_routing(spec, {1, 128, 8192, 8}, draw).counts) {
            sum += load;
            few += load < 20 ? 1 : 0;
        }
    CHECK(sum == 20 * 8192 * 8);
    // "more than a third", as the tables' makers say
    CHECK(few / (20.0 * 128) == Approx(0.37).margin(0.08));
}
