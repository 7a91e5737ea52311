#include <catch2/catch.hpp>

#include "sim/costs/collective_costs.h"
#include "sim/costs/costs.h"
#include "sim/costs/extrapolations.h"
#include "sim/costs/gemm_law.h"
#include "sim/costs/op_costs.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

// 100 SMs of 1 TFLOP/s each, all efficiencies 1, no launch cost, no k fill: times by hand.
Cluster plain_cluster() {
    Cluster c;
    c.gpus_per_node = 4;
    c.nodes = 2;
    c.gpu.sms = 100;
    c.gpu.peaks[Dtype::fp16] = 100_TFLOPps;
    c.gpu.memory_bandwidth = BytesPerSecond(1e12);
    c.kernel.launch = Seconds(0);
    c.kernel.gemm_efficiency = c.kernel.memory_efficiency = c.kernel.fused_efficiency =
        c.kernel.transpose_efficiency = 1;
    c.kernel.gemm_k0 = 0;
    c.kernel.gemm_tile_256 = c.kernel.gemm_tile_128 = c.kernel.gemm_tile_64 =
        c.kernel.gemm_tile_32 = 1;
    c.kernel.fused_ramp = Seconds(0);
    c.kernel.fused_tail = 1_ms;
    c.intra.bandwidth = 20_GBps;
    c.intra.ring_efficiency = 0.5;
    c.intra.latency = 10_us;
    c.inter.bandwidth = 1_GBps;
    c.inter.latency = 20_us;
    return c;
}

std::vector<Place> places(int n) {
    std::vector<Place> all;
    for (int r = 0; r < n; ++r) all.emplace_back(r, Lane::collective);
    return all;
}

Seconds time_of(const Op& op, int ranks = 1, Phase phase = Phase::forward) {
    return op_time(op, phase, places(ranks), plain_cluster());
}

}  // namespace

// Only 64x64 tiles, no split: 1280 x 320 = 20 x 5 = 100 tiles = 1 wave of 64*64*2*4096 FLOP = 33.55
// us at 1 TFLOP/s. One more row of tiles makes 105 tiles = 2 waves, so twice the time.
TEST_CASE("a gemm that needs one more tile than there are SMs takes a second wave") {
    Cluster c = plain_cluster();
    c.kernel.gemm_tile_256 = c.kernel.gemm_tile_128 = c.kernel.gemm_tile_64 = 1e-3;
    // splitting k by s divides the wave and multiplies the tiles: 105 tiles * 8 = 9 waves of an
    // eighth = 1.125 waves
    c.kernel.gemm_k0 = 1e6;  // a fill that long makes splitting pointless: waves alone decide
    const Seconds one = gemm_law_time({1280, 320, 4096, 1, Dtype::fp16}, c);
    const Seconds two = gemm_law_time({1281, 320, 4096, 1, Dtype::fp16}, c);
    CHECK(two / one == Approx(2.0));
}

// 4096^3: 137.4 GFLOP at 100 TFLOP/s take 1.374 ms with full waves. 512 tiles of 256x128 need 6
// waves = 600 slots: x 600/512.
TEST_CASE("a large gemm runs at peak but for its last wave") {
    const Seconds t = gemm_law_time({4096, 4096, 4096, 1, Dtype::fp16}, plain_cluster());
    CHECK(t.si() >= 1.374e-3);
    CHECK(t.si() <= 1.374e-3 * 600.0 / 512.0 * 1.0001);
}

// 12,800 x 176 on 100 SMs. With powers of two, 128 x 64 are 300 tiles, three waves of 8,192:
// 24,576, the same as 64 x 64; all larger tiles take 32,768. Tiles of 128 x 176 take one wave of
// 22,528. With 192 columns 128 x 192 take the same as 128 x 64.
TEST_CASE("tensor cores that read shared memory have tiles of every width") {
    Cluster registers = plain_cluster();
    registers.kernel.gemm_tile_reuse = 1e-9;  // all tiles are equally fast
    registers.kernel.gemm_k0 = 1e6;           // no work is cut along k
    Cluster shared = registers;
    shared.kernel.gemm_shared_operands = true;
    const auto gain = [&](long n) {
        const Gemm product{12800, n, 4096, 1, Dtype::fp16};
        return gemm_law_time(product, shared) / gemm_law_time(product, registers);
    };
    CHECK(gain(176) == Approx(176.0 / 192));
    CHECK(gain(192) == Approx(1));
}

// 102,400 x 64 x 64: activations and results are 13.1072 MB each; the arithmetic takes a third of
// their time at 1 TB/s. An L2 of half of both saves 0.3 of half the activations, 1.96608 us. In a
// step other kernels have replaced them in the L2.
TEST_CASE("a benchmark finds a part of its activations in the L2, a step does not") {
    Cluster c = plain_cluster();
    c.kernel.gemm_traffic_efficiency = 1;
    const Gemm product{102400, 64, 64, 1, Dtype::fp16};
    const auto spared = [&](GemmSetting setting) {
        Cluster held = c;
        held.gpu.l2 = Bytes(13.1072e6);
        return gemm_law_time(product, c, setting).si() - gemm_law_time(product, held, setting).si();
    };
    CHECK(spared(GemmSetting::alone) == Approx(1.96608e-6));
    CHECK(spared(GemmSetting::sustained) == Approx(1.96608e-6));
    CHECK(spared(GemmSetting::step) == 0);
}

// The same in fp8 with block scales and operands from shared memory: 13.1072 MB of results
// count 1.8 times. Then one wave of 100 tiles of 128 x 128. With 1 row in the last block of 128 the
// loop is 1 + 1.6 / 100 times as long; with 96 rows it is not, nor on Blackwell, where other tiles
// save the missing rows.
TEST_CASE(
    "kernels of scaled blocks write apart, and on Hopper take longer for few rows beyond the last "
    "block") {
    Cluster c = plain_cluster();
    c.gpu.peaks[Dtype::fp8] = 100_TFLOPps;
    c.kernel.gemm_traffic_efficiency = 1;
    c.kernel.fp8 = c.kernel.fp8_blocks = {.efficiency = 1, .k0 = 0};
    const auto time = [&](long m, long n, long k, bool blocks) {
        return gemm_law_time({m, n, k, 1, Dtype::fp8}, c, GemmSetting::alone, blocks).si();
    };
    // operands from registers
    CHECK(time(102400, 64, 64, true) == Approx(time(102400, 64, 64, false)));
    c.kernel.gemm_shared_operands = true;
    CHECK(time(102400, 64, 64, true) - time(102400, 64, 64, false) == Approx(0.8 * 13.1072e-6));
    CHECK(time(12673, 128, 4096, true) / time(12800, 128, 4096, true) == Approx(1.016));
    CHECK(time(12768, 128, 4096, true) / time(12800, 128, 4096, true) == Approx(1));
    c.gpu.peaks[Dtype::fp4] = 200_TFLOPps;
    CHECK(time(12673, 128, 4096, true) <= time(12800, 128, 4096, true));
}

// 160 x 25,600 is 100 tiles of 160 x 256 on 100 SMs: one wave. One row more makes 192 rows, the
// next multiple of 32; 300 rows are two times 160. 256 columns more make a second wave for one tile
// of a hundred, whatever kernel.gemm_wave_loss is. A long fill of the loop rules out splits along
// k.
TEST_CASE(
    "a library that goes by sizes alone cuts results into few and alike tiles and fills no last "
    "wave") {
    Cluster c = plain_cluster();
    c.kernel.gemm_tile_reuse = 50;  // large enough to slow none of these tiles
    c.kernel.gemm_wave_loss = 0;
    c.kernel.gemm_k0 = 1e6;
    c.kernel.gemm_even_tiles = true;
    const auto time = [&](long m, long n) {
        return gemm_law_time({m, n, 4096, 1, Dtype::fp16}, c).si();
    };
    CHECK(time(160, 25600) == Approx(2.0 * 160 * 256 * (4096 + 1e6) / 1e12));
    CHECK(time(161, 25600) / time(160, 25600) == Approx(192.0 / 160));
    CHECK(time(300, 25600) / time(160, 25600) == Approx(2));
    CHECK(time(160, 25856) / time(160, 25600) == Approx(2));
}

// 8192 x 4096 x 1024 makes 68.7 GFLOP. An unaligned weight costs rate alone: even rows 1 / 0.35,
// odd ones 1 / (0.35 x 0.5) as much arithmetic time. Odd rows of tf32 begin at multiples of 4
// bytes, as even ones of 16 bits. fp32 products run at their rate however rows begin.
TEST_CASE(
    "a weight whose rows begin between multiples of 16 bytes slows the product down, odd rows "
    "further") {
    Cluster c = plain_cluster();
    c.kernel.launch = Seconds(0);
    c.gpu.peaks[Dtype::fp32] = c.gpu.peaks[Dtype::tf32] = FlopsPerSecond(1e13);
    c.kernel.gemm_unaligned = 0.35;
    c.kernel.gemm_odd = 0.5;
    using Alignment = Gemm::Alignment;
    const auto time = [&](Alignment alignment, Dtype dtype) {
        return gemm_law_time(
            {.m = 8192, .n = 4096, .k = 1024, .dtype = dtype, .alignment = alignment}, c);
    };
    const Seconds whole = time(Alignment::full, Dtype::fp16);
    CHECK(time(Alignment::even, Dtype::fp16) / whole == Approx(1 / 0.35).epsilon(0.02));
    CHECK(time(Alignment::odd, Dtype::fp16) / whole == Approx(1 / 0.175).epsilon(0.02));
    CHECK(time(Alignment::odd, Dtype::tf32) / time(Alignment::full, Dtype::tf32) ==
          Approx(1 / 0.35).epsilon(0.02));
    CHECK(time(Alignment::odd, Dtype::fp32) == time(Alignment::full, Dtype::fp32));
}

// 16 x 102,400 x 3,072: weights of 629.1456 MB and activations of 98,304 bytes, both in rows of 6
// KiB; rows of results are 204,800 bytes. Rows of 3,200 elements are no multiple of 6 KiB. The
// weights of an input gradient lie in rows of n, and the activations of a weight gradient in rows
// of m.
TEST_CASE("rows that all begin at one channel of the memory come at a part of its rate") {
    Cluster c = plain_cluster();
    c.kernel.gemm_traffic_efficiency = 1;
    c.kernel.gemm_camping = 0.5;
    const auto longer = [&](long k, Gemm::Layout layout) {
        const Gemm product{.m = 16, .n = 102400, .k = k, .dtype = Dtype::fp16, .layout = layout};
        Cluster camped = c;
        camped.gpu.memory_interleave = Bytes(6144);
        return gemm_law_time(product, camped).si() - gemm_law_time(product, c).si();
    };
    CHECK(longer(3072, Gemm::Layout::nt) == Approx(629.243904e-6));
    CHECK(longer(3072, Gemm::Layout::nn) == Approx(0.098304e-6));
    CHECK(longer(3072, Gemm::Layout::tn) == 0);
    CHECK(longer(3200, Gemm::Layout::nt) == 0);
}

// 102,400 x 3,072 x 64: results of 629.1456 MB in rows of 6 KiB, of which an L2 of 129.1456 MB
// takes its share; rows of operands are 128 bytes. Memory is slower than the 0.403 ms of
// arithmetic.
TEST_CASE("results that the L2 takes leave it in another order than by rows") {
    Cluster c = plain_cluster();
    c.kernel.gemm_traffic_efficiency = 1;
    c.gpu.l2 = Bytes(129.1456e6);
    const Gemm product{102400, 3072, 64, 1, Dtype::fp16};
    const Seconds spread = gemm_law_time(product, c, GemmSetting::step);
    c.gpu.memory_interleave = Bytes(6144);
    // a camping of 1 takes no rate away
    CHECK(gemm_law_time(product, c, GemmSetting::step) == spread);
    c.kernel.gemm_camping = 0.5;
    CHECK(gemm_law_time(product, c, GemmSetting::step).si() - spread.si() == Approx(500e-6));
}

// Operands of 5,120 and 1,280 rows of 4096 elements have a geometric mean of 2,560 x 4096 x 2 =
// 20,971,520 bytes. Where the cache holds half of that, half of the cost of a reload counts.
TEST_CASE("operands larger than the cache come from the memory again") {
    Cluster c = plain_cluster();
    c.kernel.gemm_k0 = 1e6;
    const Gemm product{5120, 1280, 4096, 1, Dtype::fp16};
    const Seconds once = gemm_law_time(product, c);
    c.kernel.gemm_reload = 0.3;
    c.kernel.gemm_reload_cache = Bytes(20971520 / 2);
    CHECK(gemm_law_time(product, c) / once == Approx(1.15));
    c.kernel.gemm_reload_cache = Bytes(20971520);
    CHECK(gemm_law_time(product, c) / once == Approx(1));
}

// 1 x 1,000,000 x 64 moves 2 (64 + 64e6 + 1e6) bytes = 130 MB at 1 TB/s: at least 130 us.
TEST_CASE("a gemm is never faster than its operands can be read") {
    const Cluster c = plain_cluster();
    const Seconds t = gemm_law_time({1, 1000000, 64, 1, Dtype::fp16}, c);
    CHECK(t.si() >= 2 * (64.0 + 64e6 + 1e6) / 1e12);
}

// 50 groups of 64 rows are 100 tiles of 64x64, one wave, like one gemm of 3200 rows: 33.55 us. Each
// group has its own weights, 50 MB in all, so memory must be fast for the waves to show.
TEST_CASE("groups of one kernel share its waves") {
    Cluster c = plain_cluster();
    c.gpu.memory_bandwidth = BytesPerSecond(1e15);
    const GroupedGemm op{std::vector<long>(50, 64), 128, 4096, Dtype::fp16};
    CHECK(grouped_gemm_law_time(op, c).si() == Approx(33.55e-6).epsilon(1e-3));
    CHECK(gemm_law_time({3200, 128, 4096, 1, Dtype::fp16}, c).si() ==
          Approx(33.55e-6).epsilon(1e-3));
}

// 8 groups of two tiles share one wave. At a tenth of the rate that wave takes 10 times as long,
// one product after another 8 times.
TEST_CASE("a slow kernel over groups never takes longer than one product after another for each") {
    Cluster c = plain_cluster();
    c.gpu.memory_bandwidth = BytesPerSecond(1e15);
    const GroupedGemm op{std::vector<long>(8, 64), 128, 4096, Dtype::fp16};
    const Seconds one = gemm_law_time({64, 128, 4096, 1, Dtype::fp16}, c);
    c.kernel.grouped_gemm = 0.1;
    CHECK(grouped_gemm_law_time(op, c).si() == Approx(8 * one.si()));
    c.kernel.grouped_gemm = 0.99;
    CHECK(grouped_gemm_law_time(op, c) < 8.0 * one);
}

namespace {

// As above, with a call over all groups so slow that it is never taken, and a host without costs.
// Cutting along k brings nothing.
struct SlowCall {
    Cluster cluster = plain_cluster();
    GroupedGemm op{std::vector<long>(8, 64), 128, 4096, Dtype::fp16};
    Gemm one{64, 128, 4096, 1, Dtype::fp16};

    SlowCall() {
        cluster.gpu.memory_bandwidth = BytesPerSecond(1e15);
        cluster.host.call = 0_s;
        cluster.kernel.gemm_k0 = 1e6;
        cluster.kernel.grouped_gemm = 0.01;
    }
    [[nodiscard]] double time() const { return grouped_gemm_law_time(op, cluster).si(); }
};

}  // namespace

// A product of each group takes a wave w, all in one kernel one wave. On several streams half of
// the idle SMs are filled: 8 w + 1/2 (w - 8 w) = 4.5 w; all of them: w. Where the host needs 2 w
// for each call, they take 16 w, and one after another on one stream is as short as before: 8 w.
TEST_CASE("groups on several streams fill each other's idle SMs, as far as the host keeps up") {
    SlowCall of;
    const Seconds wave = gemm_law_time(of.one, of.cluster);
    of.cluster.kernel.grouped_spread = 0.5;
    CHECK(of.time() == Approx(4.5 * wave.si()).epsilon(1e-3));
    of.cluster.kernel.grouped_spread = 1;
    CHECK(of.time() == Approx(wave.si()).epsilon(1e-3));
    of.cluster.host.call = 2.0 * wave;
    CHECK(of.time() == Approx(8 * wave.si()).epsilon(1e-3));
}

// Launches of 10 us overlap but for the 0.86 us between two kernels: one launch, eight products,
// and eight times that. On one stream the eight launches are counted whole.
TEST_CASE("groups on several streams wait for one launch") {
    SlowCall of;
    const double bare = (gemm_law_time(of.one, of.cluster) - of.cluster.kernel.launch).si();
    of.cluster.kernel.launch = 10_us;
    CHECK(of.time() == Approx(8 * (bare + 10e-6)).epsilon(1e-3));
    of.cluster.kernel.grouped_spread = 1e-9;
    CHECK(of.time() == Approx(10e-6 + 8 * (bare + 0.86e-6)).epsilon(1e-3));
}

// The measured shape takes twice as long as the law says. There the weight is 1 beside the law's
// 0.1: 2^(1 / 1.1). Twice the rows: exp(-1 / 1.28) = 0.4578, 2^(0.4578 / 0.5578) = 1.7664. 1024
// times the rows: nothing. Beside unaligned rows, other types, sums into fp32 and benchmarks it
// says nothing.
TEST_CASE("near a measured product the law is wrong by as much as there, in steps") {
    Cluster c = plain_cluster();
    const auto in_step = [&c](const Gemm& op) { return gemm_law_time(op, c, GemmSetting::step); };
    const Gemm measured{256, 1024, 4096, 1, Dtype::fp16};
    Gemm doubled = measured, far = measured, odd = measured, added = measured, other = measured;
    doubled.m = 512, far.m = 256 * 1024, odd.alignment = Gemm::Alignment::odd;
    added.accumulate = true, other.dtype = Dtype::fp32;
    c.gpu.peaks[Dtype::fp32] = c.gpu.peaks[Dtype::bf16] = c.gpu.peaks[Dtype::fp16];
    std::vector<Seconds> before;
    const std::vector<Gemm> all{measured, doubled, far, odd, added, other};
    for (const Gemm& op : all) before.push_back(in_step(op));
    const Seconds alone = gemm_law_time(measured, c);
    c.kernel.gemm_near = {{256, 1024, 4096, Dtype::bf16, 2.0 * before.front()}};
    const std::vector<double> expected{std::pow(2, 1 / 1.1), 1.7664, 1, 1, 1, 1};
    for (std::size_t i = 0; i < all.size(); ++i) {
        CAPTURE(i);
        CHECK(in_step(all[i]) / before[i] == Approx(expected[i]).epsilon(1e-3));
    }
    CHECK(gemm_law_time(measured, c) == alone);
    c.kernel.gemm_near_accumulated = {{256, 1024, 4096, Dtype::fp16, before[4] / 2.0}};
    CHECK(in_step(added) / before[4] == Approx(std::pow(2, -1 / 1.1)));
}

// 50 groups of 3 kernels that take 2 us on the device and 5 us on the host each: 150 * 7 us = 1.05
// ms longer.
TEST_CASE("groups that multiply one by one wait for each kernel's launch and call") {
    Cluster c = plain_cluster();
    const GroupedGemm at_once{std::vector<long>(50, 64), 128, 4096, Dtype::fp16};
    GroupedGemm each = at_once;
    each.kernels = 3;
    c.kernel.launch = 2_us;
    c.host.call = 5_us;
    CHECK((grouped_gemm_law_time(each, c) - grouped_gemm_law_time(at_once, c)).si() ==
          Approx(1.05e-3));
}

// n = 4 at half of 20 GB/s, latency 10 us, 10 MB: all-reduce 2*3*10 us + 2*3/4*1 ms = 1.56 ms;
// all-gather 0.03 + 0.75; broadcast 0.03 + 1.0 ms; barrier 10 us.
TEST_CASE("ring collectives follow their closed forms") {
    CHECK(time_of(AllReduce{Bytes(10e6)}, 4).si() == Approx(1.56e-3));
    CHECK(time_of(AllGather{Bytes(10e6)}, 4).si() == Approx(0.78e-3));
    CHECK(time_of(ReduceScatter{Bytes(10e6)}, 4).si() == Approx(0.78e-3));
    CHECK(time_of(Broadcast{Bytes(10e6), 0}, 4).si() == Approx(1.03e-3));
    CHECK(time_of(Reduce{Bytes(10e6), 0}, 4).si() == Approx(1.03e-3));
    CHECK(time_of(Barrier{}, 4).si() == Approx(10e-6));
}

TEST_CASE("one rank needs no communication") {
    CHECK(time_of(AllReduce{Bytes(10e6)}, 1) == Seconds(0));
    CHECK(time_of(AllToAll{{Bytes(10e6)}}, 1) == Seconds(0));
}

// Rank 1 receives 4 + 6 MB from two others. The own rank's data (90 MB on the diagonal) crosses no
// link: 10 us + 10 MB / 20 GB/s = 510 us.
TEST_CASE("an all-to-all takes as long as its busiest rank, not the average") {
    AllToAll op{std::vector<Bytes>(9, Bytes(0))};
    op.bytes[0 * 3 + 1] = Bytes(4e6);
    op.bytes[2 * 3 + 1] = Bytes(6e6);
    op.bytes[0 * 3 + 2] = Bytes(5e6);
    for (std::size_t r = 0; r < 3; ++r) op.bytes[r * 3 + r] = Bytes(90e6);
    CHECK(busiest_bytes(op) == Bytes(10e6));
    CHECK(time_of(op, 3).si() == Approx(510e-6));
}

// Four ranks on one node and one on the next: 1 MB through the one NIC of that rank at 1 GB/s; one
// round of 20 us between the nodes, three of 10 us inside.
TEST_CASE("ranks on two nodes use the link between nodes") {
    CHECK(time_of(Broadcast{Bytes(1e6), 0}, 5).si() == Approx(3 * 10e-6 + 20e-6 + 1e-3));
}

// Two 64-row blocks per thread block, 4096 x 1024: 1.0737 GFLOP at 1 TFLOP/s = 1.0737 ms per wave.
// 200 blocks = 100 thread blocks = 1 wave; 202 = 2 waves. Gather of 40 remote blocks of 1 MB: 1 ms
// tail + 2 ms transfer; scatter adds 0.44 * 2 ms.
TEST_CASE("the fused expert kernel goes in waves and waits for remote rows") {
    const Seconds wave(2.0 * 128 * 4096 * 1024 / 1e12);
    FusedGemm op{.blocks = 200,
                 .remote_blocks = 0,
                 .rows_per_block = 64,
                 .blocks_per_thread_block = 2,
                 .n = 4096,
                 .k = 1024,
                 .remote_bytes_per_block = Bytes(1e6)};
    CHECK(time_of(op).si() == Approx(wave.si()));
    op.blocks = 202;
    CHECK(time_of(op).si() == Approx(2 * wave.si()));
    op.remote_blocks = 40;
    CHECK(time_of(op).si() == Approx(3e-3));
    op.transfer = FusedGemm::Transfer::scatter;
    CHECK(time_of(op).si() == Approx(2 * wave.si() + 0.44 * 2e-3));
}

TEST_CASE("a module call costs what its direction costs") {
    Cluster c = plain_cluster();
    c.host.module_forward = 3_us;
    c.host.module_backward = 5_us;
    const HostWork op{HostWork::Kind::module, 2};
    CHECK(op_time(op, Phase::forward, places(1), c) == 6_us);
    CHECK(op_time(op, Phase::backward, places(1), c) == 10_us);
}

TEST_CASE("doubling a bandwidth never slows an op and a larger message is never faster") {
    Cluster fast = plain_cluster();
    fast.intra.bandwidth = 2.0 * fast.intra.bandwidth;
    fast.gpu.memory_bandwidth = 2.0 * fast.gpu.memory_bandwidth;
    for (double bytes = 1; bytes < 1e9; bytes *= 7) {
        for (const Op& op :
             {Op(AllReduce{Bytes(bytes)}), Op(Broadcast{Bytes(bytes), 0}),
              Op(MemoryPass{Bytes(bytes), Bytes(bytes)}), Op(SendRecv{Bytes(bytes), 3})}) {
            CHECK(op_time(op, Phase::forward, places(4), fast) <=
                  op_time(op, Phase::forward, places(4), plain_cluster()));
        }
        CHECK(time_of(AllReduce{Bytes(bytes)}, 4) < time_of(AllReduce{Bytes(bytes * 7)}, 4));
    }
}

// In a step, ranks 0 and 1 of one node reach 0.8 of the law's rate, ranks 0 and 4 of two nodes 0.5:
// the law's times over those.
TEST_CASE("exchanges of a step run at their own level's share of the rate") {
    TaskGraph graph(8);
    for (const int stride : {1, 4}) {
        const std::vector<Place> two{Place(0, Lane::collective), Place(stride, Lane::collective)};
        graph.add({graph.name_id("sum"), Phase::forward, graph.add_op(AllReduce{Bytes(8e6)}), 1,
                   graph.add_group({.ranks = 2, .stride = stride})},
                  two, std::vector<TaskId>{});
    }
    Cluster c = plain_cluster();
    const auto alone = price(graph, c).duration;
    c.intra.training = 0.8;
    c.inter.training = 0.5;
    const auto step = price(graph, c).duration;
    CHECK(step[0] / alone[0] == Approx(1 / 0.8));
    CHECK(step[1] / alone[1] == Approx(1 / 0.5));
}

// The share applies to NCCL's kernels; an exchange that sends each token once runs other kernels.
TEST_CASE("kernels that send a token once have no other rate in a step") {
    Cluster c = plain_cluster();
    const auto price_of = [&](Bytes row) {
        TaskGraph graph(2);
        AllToAll op{std::vector<Bytes>(4, Bytes(4e6))};
        op.row = row;
        op.tokens = 1000;
        graph.add({graph.name_id("exchange"), Phase::forward, graph.add_op(op), 1,
                   graph.add_group({.ranks = 2, .stride = 1})},
                  std::vector<Place>{Place(0, Lane::collective), Place(1, Lane::collective)},
                  std::vector<TaskId>{});
        return price(graph, c).duration[0];
    };
    const Seconds once = price_of(Bytes(8e3)), slots = price_of(Bytes(0));
    c.intra.training = 0.8;
    CHECK(price_of(Bytes(8e3)) == once);
    CHECK(price_of(Bytes(0)) / slots == Approx(1 / 0.8));
}

// Each kind of host work has its own price per call; three calls, loaded twice. Modules are priced
// by direction.
TEST_CASE("the host's work costs what its kind costs, as often as it is called") {
    Cluster c;
    HostCosts& h = c.host;
    h.load = 2;
    using Kind = HostWork::Kind;
    const std::vector<std::pair<Kind, Seconds HostCosts::*>> kinds{
        {Kind::framework, &HostCosts::framework},
        {Kind::layer, &HostCosts::layer},
        {Kind::exchange_setup, &HostCosts::exchange_setup},
        {Kind::schedule, &HostCosts::schedule},
        {Kind::assignment, &HostCosts::assignment},
        {Kind::read, &HostCosts::read},
        {Kind::flatten, &HostCosts::flatten},
        {Kind::update, &HostCosts::update},
        {Kind::gather, &HostCosts::gather},
        {Kind::input, &HostCosts::input},
        {Kind::expert_layer, &HostCosts::expert_layer},
        {Kind::micro_batch, &HostCosts::micro_batch},
        {Kind::exchange, &HostCosts::exchange},
        {Kind::recompute, &HostCosts::recompute}};
    double seconds = 1;
    for (const auto& [kind, price] : kinds) h.*price = Seconds(seconds *= 1.5);
    h.module_forward = Seconds(7);
    h.module_backward = Seconds(11);
    for (const auto& [kind, price] : kinds)
        CHECK(op_time(HostWork{kind, 3}, Phase::forward, {}, c) == 2 * (3.0 * h.*price));
    CHECK(op_time(HostWork{Kind::module, 3}, Phase::forward, {}, c) == Seconds(42));
    CHECK(op_time(HostWork{Kind::module, 3}, Phase::backward, {}, c) == Seconds(66));
}

// 600 bytes take 6 s at 100 per second; 900 operations at 100 per second take 9 s, 500 take 5 s.
// Without a rate of fp32 the memory's time stays.
TEST_CASE("a memory pass takes as long as its arithmetic where that is longer") {
    Cluster c;
    c.gpu.memory_bandwidth = BytesPerSecond(100);
    c.gpu.peaks[Dtype::fp32] = FlopsPerSecond(100);
    c.kernel.launch = Seconds(2);
    c.kernel.cache = Bytes(0);
    c.kernel.optimizer_efficiency = 1;
    const auto seconds = [&](double operations) {
        const MemoryPass pass{Bytes(200), Bytes(400), MemoryPass::Access::optimizer, operations};
        return op_time(pass, Phase::forward, {}, c).si();
    };
    CHECK(seconds(900) == Approx(2 + 9));
    CHECK(seconds(500) == Approx(2 + 6));
    c.kernel.memory_curve = {{Bytes(300), Seconds(7)}, {Bytes(900), Seconds(7)}};
    c.kernel.memory_efficiency = 1;
    CHECK(seconds(900) == Approx(9));
    CHECK(seconds(500) == Approx(7));
    c.gpu.peaks[Dtype::fp32] = FlopsPerSecond(0);
    CHECK(seconds(900) == Approx(7));
}

// 600 bytes at 100 per second and the efficiency of their access, after 2 s of launch. A cache of
// 600 bytes that is three times as fast gives half of its gain at its own size. With measured
// points: 7 s, scaled by how much slower the access is than a stream.
TEST_CASE("a memory pass goes at the rate of its access, in a cache faster, or as measured") {
    Cluster c;
    c.gpu.memory_bandwidth = BytesPerSecond(100);
    c.kernel.launch = Seconds(2);
    c.kernel.cache = Bytes(0);
    c.kernel.memory_efficiency = 0.8;
    c.kernel.transpose_efficiency = 0.4;
    c.kernel.optimizer_efficiency = 0.5;
    c.kernel.row_efficiency = 0.6;
    c.kernel.strided_efficiency = 0.3;
    const auto seconds = [&](MemoryPass::Access access) {
        return op_time(MemoryPass{Bytes(200), Bytes(400), access}, Phase::forward, {}, c).si();
    };
    using Access = MemoryPass::Access;
    CHECK(seconds(Access::stream) == Approx(2 + 6 / 0.8));
    CHECK(seconds(Access::transpose) == Approx(2 + 6 / 0.4));
    CHECK(seconds(Access::optimizer) == Approx(2 + 6 / 0.5));
    CHECK(seconds(Access::rows) == Approx(2 + 6 / 0.6));
    CHECK(seconds(Access::strided) == Approx(2 + 6 / 0.3));
    c.kernel.cache = Bytes(600);
    c.kernel.cache_gain = 3;
    CHECK(seconds(Access::stream) == Approx(2 + 6 / 0.8 / 2));
    c.kernel.cache = Bytes(300);  // 1 / (1 + 8) of the gain
    CHECK(seconds(Access::stream) == Approx(2 + 6 / 0.8 / (1 + 2.0 / 9)));
    c.kernel.memory_curve = {{Bytes(300), Seconds(5)}, {Bytes(600), Seconds(7)}};
    CHECK(seconds(Access::stream) == Approx(7));
    CHECK(seconds(Access::transpose) == Approx(14));
}

// 6 products of 64 x 96 x 32, two forward and four backward; 6 x 64 x 96 scores of two bytes cross
// the memory four times forward and five times backward.
TEST_CASE(
    "attention that is not fused takes its products and four or five passes over its scores") {
    const double scores = 6 * 64 * 96 * 2, product = time_of(Gemm{64, 96, 32, 6, Dtype::fp16}).si();
    Attention attention{2, 3, 64, 96, 32, false, false, Dtype::fp16};
    CHECK(time_of(attention).si() == Approx(2 * product + 4 * scores / 1e12));
    attention.backward = true;
    CHECK(time_of(attention).si() == Approx(4 * product + 5 * scores / 1e12));
}

TEST_CASE("kernels that no table holds are said, with the law that prices them") {
    TaskGraph graph;
    Gemm product{64, 64, 128, 1 << 20};
    product.unmeasured = Unmeasured::delta_rule;
    Attention selected{1, 128, 8192, 8192, 576};
    selected.flash = true;
    selected.unmeasured = Unmeasured::sparse_attention;
    graph.add_op(product);
    graph.add_op(selected);
    Cluster c;
    c.fitted.emplace();
    c.fitted->ranges = {{"gemm.m", 128, 8192}, {"attention.queries", 128, 4096}};
    CHECK(
        texts_of(extrapolations(graph, c)) ==
        std::vector<std::string>{
            "extrapolated: gated_delta_rule: its kernels were measured nowhere; each of their "
            "GEMMs is estimated as a batched GEMM of its own",
            "extrapolated: sparse_attention: its kernels were measured nowhere; scores of the "
            "indexer and attention to selected keys are estimated as flash attention over as many "
            "keys"});
}

// Outside a table of 64 to 128 by 32 by 16, above the 1 kB of the measured points, and more than
// two waves of fused blocks on four SMs.
TEST_CASE("what lies outside of measured tables is said") {
    Cluster c;
    c.gpu.sms = 4;
    const auto notes = [&](const Op& op) {
        TaskGraph graph;
        graph.add_op(op);
        return texts_of(extrapolations(graph, c));
    };
    // also on a machine that nothing was fitted to
    CHECK(notes(MemoryPass{Bytes(1), Bytes(1), MemoryPass::Access::optimizer}).empty());
    CHECK(notes(MemoryPass{Bytes(1), Bytes(1), MemoryPass::Access::optimizer, 1}) ==
          std::vector<std::string>{"extrapolated: optimizer: the arithmetic of 8-bit moments is "
                                   "that of one step on one H200"});
    FusedGemm fused{};
    fused.blocks = 27;
    fused.blocks_per_thread_block = 3;
    CHECK(notes(Gemm{1, 1, 1}).empty());
    CHECK(notes(fused).empty());
    c.fitted.emplace();
    CHECK(notes(fused) ==
          std::vector<std::string>{"extrapolated: fused kernel with 27 blocks is more than the two "
                                   "waves of 4 SMs that were measured"});
    fused.blocks = 24;
    CHECK(notes(fused).empty());
    c.kernel.gemm_table = {{64, 32, 16, Dtype::fp32, Seconds(1)},
                           {128, 32, 16, Dtype::fp32, Seconds(1)}};
    CHECK(notes(Gemm{64, 32, 16}).empty());
    CHECK(notes(Gemm{128, 32, 16}).empty());
    for (const Gemm& outside : {Gemm{63, 32, 16}, Gemm{129, 32, 16}, Gemm{64, 31, 16},
                                Gemm{64, 33, 16}, Gemm{64, 32, 15}, Gemm{64, 32, 17}})
        CHECK(notes(outside) == std::vector<std::string>{
                                    "extrapolated: gemm " + std::to_string(outside.m) + " x " +
                                    std::to_string(outside.n) + " x " + std::to_string(outside.k) +
                                    " lies outside the measured table"});
    CHECK(notes(GroupedGemm{{0, 64, 129}, 32, 16}) == notes(Gemm{129, 32, 16}));
    CHECK(notes(GroupedGemm{{64, 1}, 32, 16}) == notes(Gemm{1, 32, 16}));
    CHECK(notes(GroupedGemm{{16, 17}, 32, 64, Dtype::fp32, true}) == notes(Gemm{64, 32, 17}));
    c.kernel.gemm_table_by_weight = true;
    CHECK(notes(Gemm{63, 32, 16}).empty());
    const Curve points{{Bytes(10), Seconds(1)}, {Bytes(1000), Seconds(2)}};
    c.kernel.memory_curve = c.intra.all_to_all = c.intra.all_reduce = points;
    CHECK(notes(MemoryPass{Bytes(400), Bytes(600)}).empty());
    CHECK(notes(MemoryPass{Bytes(401), Bytes(600)}) ==
          std::vector<std::string>{
              "extrapolated: memory-bound kernel of 1.001 kB is beyond the measured 1 kB"});
    CHECK(notes(AllReduce{Bytes(1000)}).empty());
    CHECK(notes(AllReduce{Bytes(2000)}) ==
          std::vector<std::string>{"extrapolated: all-reduce of 2 kB is beyond the measured 1 kB"});
    CHECK(notes(AllToAll{{Bytes(0), Bytes(2000), Bytes(1), Bytes(0)}}) ==
          std::vector<std::string>{"extrapolated: all-to-all of 2 kB is beyond the measured 1 kB"});
}
