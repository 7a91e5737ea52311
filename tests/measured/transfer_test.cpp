#include <cmath>

#include <catch2/catch.hpp>

#include "measured/priors.h"
#include "measured/read.h"
#include "measured/transfer.h"
#include "measured/transfer_spreads.h"
#include "model/experiment.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

Gpu gpu(double tflops, double gigabytes, int sms) {
    Gpu g;
    g.peaks[Dtype::bf16] = FlopsPerSecond(1e12 * tflops);
    g.memory_bandwidth = BytesPerSecond(1e9 * gigabytes);
    g.sms = sms;
    return g;
}

}  // namespace

// Exponentials worth 64 widths beside 128 are a third of the time. Twice as fast they are worth 32,
// and the rest keeps its rate: 0.6 (1 + 64/128) / (1 + 32/128) = 0.72; the same for fp8.
TEST_CASE("Blackwell Ultra takes exponentials twice as fast") {
    Gpu from = gpu(2000, 8000, 100), to = from;
    from.peaks[Dtype::fp8] = to.peaks[Dtype::fp8] = FlopsPerSecond(4e15);
    from.peaks[Dtype::fp4] = FlopsPerSecond(8e15);
    to.peaks[Dtype::fp4] = FlopsPerSecond(12e15);
    AttentionKernel attention;
    attention.efficiency = 0.6;
    attention.width = 64;
    attention.fp8_efficiency = 0.4;
    const AttentionKernel there = moved(attention, from, to);
    CHECK(there.efficiency == Approx(0.72));
    CHECK(there.width == Approx(32));
    CHECK(there.fp8_efficiency == Approx(0.48));
    CHECK(moved(there, to, from).efficiency == Approx(0.6));
    CHECK(moved(attention, from, from) == attention);
    CHECK(rate_distance(gpu(200, 1, 100), gpu(400, 1, 100)) == Approx(std::log(2)));
}

// 10 TFLOP/s and 57 GB/s per SM against 2.5 and 9.5: the same time is a quarter of the keys, widths
// and k, and a sixth of the bytes of an expert layer. A pass of attention waits for the memory and
// for the SM, which copies 38 GB/s: 1 + 57 / 38 = 2.5 of the memory's time there, 1.25 here.
TEST_CASE("what takes an SM a time counts fewer elements where its tensor cores are slower") {
    const Gpu from = gpu(1000, 5700, 100), to = gpu(500, 1900, 200);
    AttentionKernel attention;
    attention.fill = 400;
    attention.width = 80;
    attention.traffic = 2;
    attention.cache = 4;
    attention.token = Seconds(6e-9);
    const AttentionKernel there = moved(attention, from, to);
    CHECK(there.fill == Approx(100));
    CHECK(there.width == Approx(20));
    CHECK(there.traffic == Approx(1));
    CHECK(there.cache == Approx(2));
    CHECK(there.token.si() == Approx(3e-9));  // with twice as many SMs
    CHECK(there.efficiency == attention.efficiency);
    ExpertKernel experts;
    experts.k0 = 800;
    experts.passes = 2;
    CHECK(moved(experts, from, to).k0 == Approx(200));
    CHECK(moved(experts, from, to).passes == Approx(1.0 / 3));
}

// An SM with 2.8 TFLOP/s does 2,048 operations per cycle at 1.37 GHz, one with 2.4 does 1,024
// at 2.34. The same exponentials per cycle are worth half the widths: 32 are a fifth of the time of
// a head of 128, 16 a ninth: 0.6 (1 + 32/128) / (1 + 16/128) = 2/3. A share never exceeds nearly
// the whole peak.
TEST_CASE("exponentials take cycles of an SM, whatever its tensor cores make in one") {
    Gpu server = gpu(280, 2000, 100), card = gpu(240, 2000, 100);
    AttentionKernel attention;
    attention.efficiency = 0.6;
    attention.fp8_efficiency = 0.9;
    attention.width = 32;
    // for another maker nothing is known about them
    CHECK(moved(attention, server, card).width == Approx(32 * 240.0 / 280));
    CHECK(moved(attention, server, card).efficiency == 0.6);
    server.peaks[Dtype::tf32] = card.peaks[Dtype::tf32] = FlopsPerSecond(1e14);
    const AttentionKernel there = moved(attention, server, card);
    CHECK(there.width == Approx(16));
    CHECK(there.efficiency == Approx(2.0 / 3));
    CHECK(there.fp8_efficiency == Approx(0.95));
    CHECK(moved(there, card, server).efficiency == Approx(0.6));
    attention.efficiency = 0.97;  // already fitted above that
    CHECK(moved(attention, server, card).efficiency == Approx(0.97));
}

// SMs copy 40 GB/s. With 50 GB/s of memory for each they use 0.8 of it and gain nothing from the
// cache; with 10 GB/s they use all of it, and four times that (over 0.95) from the cache.
TEST_CASE("casts are as fast as the memory or the SMs") {
    Cluster measured;
    measured.gpu = gpu(1000, 5000, 100);
    measured.kernel.cast.efficiency = 0.8;
    measured.kernel.cast.cache_gain = 1.0001;
    const CastCosts same = moved_casts({measured}, {}, measured.gpu);
    CHECK(same.efficiency == Approx(0.8).epsilon(1e-3));
    CHECK(same.cache_gain == Approx(1.01));
    // The median of several: SMs that copy 40, 20 and 30 GB/s; for the last two the mean.
    std::vector<Cluster> three(3, measured);
    three[1].kernel.cast.efficiency = 0.4;
    three[2].kernel.cast.efficiency = 0.6;
    CHECK(moved_casts(three, {}, measured.gpu).efficiency == Approx(0.6).epsilon(1e-3));
    three.erase(three.begin());
    CHECK(moved_casts(three, {}, measured.gpu).efficiency == Approx(0.5).epsilon(1e-3));
    const CastCosts slow = moved_casts({measured}, {}, gpu(500, 2000, 200));
    CHECK(slow.efficiency == Approx(0.95));
    CHECK(slow.cache_gain == Approx(4 / 0.95).epsilon(1e-3));
    CHECK(slow.tensor_efficiency == 0);  // nothing is known about such casts
    measured.kernel.cast.tensor_efficiency = 0.5;
    measured.kernel.cast.tensor_gain = 2;  // 50 GB/s per SM
    const CastCosts found = moved_casts({measured}, {}, gpu(500, 2000, 200));
    CHECK(found.tensor_efficiency == Approx(0.8));
    CHECK(found.tensor_gain == Approx(5 / 0.8));
    // If the nearest machine's SMs copy far faster than its memory, the share of the memory is that
    // machine's.
    CastCosts bound;
    bound.efficiency = 0.86;
    bound.cache_gain = 4;
    bound.tensor_efficiency = 1.1;
    CHECK(moved_casts({measured}, bound, gpu(500, 2000, 200)).efficiency == Approx(0.86));
    CHECK(moved_casts({measured}, bound, gpu(500, 2000, 200)).tensor_efficiency == Approx(1.1));
}

// An operation takes 1 + rate / 50 of its time at the peak: 1.1 at 5 TFLOP/s per SM, 1.2 at 10, 1.3
// at 15; 1.6 at 30 in fp8, which one of them has.
TEST_CASE(
    "the faster an SM's tensor cores in a type, the smaller a share of their rate products reach") {
    std::vector<Cluster> machines(3);
    for (int i = 0; i < 3; ++i) {
        machines[static_cast<std::size_t>(i)].gpu = gpu(500 * (i + 1), 1000, 100);
        machines[static_cast<std::size_t>(i)].kernel.gemm_efficiency = 1 / (1 + 0.1 * (i + 1));
    }
    machines[2].gpu.peaks[Dtype::fp8] = FlopsPerSecond(3000e12);
    machines[2].kernel.fp8.efficiency = 1 / 1.6;
    CHECK(efficiency_ratio(machines, {machines[2]}, gpu(250, 1000, 100), Dtype::bf16) ==
          Approx(1.3 / 1.05));
    CHECK(efficiency_ratio(machines, machines, gpu(1000, 1000, 100), Dtype::bf16) == Approx(1));
    Gpu slower = gpu(250, 1000, 100);
    slower.peaks[Dtype::fp8] = FlopsPerSecond(500e12);
    CHECK(efficiency_ratio(machines, {machines[2]}, slower, Dtype::fp8) == Approx(1.6 / 1.1));
    CHECK(efficiency_ratio(machines, {machines[0]}, slower, Dtype::fp8) == 1);  // has no fp8
}

// Twice as much bandwidth per SM lowers the share by a tenth: 0.9 at 10 GB/s per SM, 0.81 at 20,
// 0.729 at 40.
TEST_CASE("the more of the memory an SM has, the smaller a share of it products reach") {
    std::vector<Cluster> machines(3);
    for (std::size_t i = 0; i < 3; ++i) {
        machines[i].gpu = gpu(500, 1000 * std::exp2(i), 100);
        machines[i].kernel.gemm_traffic_efficiency = std::pow(0.9, i + 1);
    }
    CHECK(traffic_ratio(machines, {machines[0]}, gpu(500, 2000, 100)) == Approx(0.9));
    CHECK(traffic_ratio(machines, {machines[2]}, gpu(500, 500, 100)) ==
          Approx(1 / std::pow(0.9, 3)));
    CHECK(traffic_ratio(machines, machines, gpu(500, 500, 1)) == 1);
}

// An SM with 2.048 TFLOP/s does 1,024 operations per cycle at 2 GHz, one with 2.048 * 1.4 does
// 2,048 at 1.4 GHz; launches take 1.4 / 2 of the time on the first.
TEST_CASE("launches take cycles of an SM's clock") {
    const Gpu card = gpu(204.8, 1000, 100), server = gpu(286.72, 1000, 100);
    CHECK(launch_ratio(server, card) == Approx(0.7));
    CHECK(launch_ratio(card, gpu(184.32, 1000, 100)) == 1);  // SMs of a kind
    CHECK(same_sms(card, gpu(184.32, 1000, 100)));
    CHECK_FALSE(same_sms(card, server));
    CHECK_FALSE(same_sms(gpu(204.8, 1000, 1), card));
    AttentionKernel attention;
    attention.launch = Seconds(10e-6);
    CHECK(moved(attention, server, card).launch.si() == Approx(7e-6));
    ExpertKernel experts;
    experts.launch = Seconds(20e-6);
    CHECK(moved(experts, server, card).launch.si() == Approx(14e-6));
    const Gpu a100 = read_cluster("dgx-a100").gpu, rtx = read_cluster("rtx-pro-6000-x8").gpu,
              l40s = read_cluster("l40s-x8").gpu;
    CHECK(same_sms(rtx, l40s));
    CHECK(launch_ratio(a100, rtx) == Approx(0.58).epsilon(0.01));  // 1.41 of 2.43 GHz
    CHECK(same_sms(read_cluster("dgx-h100").gpu, read_cluster("h100-pcie-x8").gpu));
}

// 1,024 operations per cycle at 2 GHz instead of 2,048 at 1.4 GHz: operands take the same cycles,
// so a tile loses half as much.
TEST_CASE("a tile that registers feed loses in the measure of operations a cycle") {
    const Gpu card = gpu(204.8, 1000, 100), server = gpu(286.72, 1000, 100);
    Cluster registers, shared;
    registers.gpu = shared.gpu = server;
    shared.kernel.gemm_shared_operands = true;
    CHECK(reuse_ratio({registers}, card) == Approx(0.5));
    CHECK(reuse_ratio({registers}, gpu(300, 1000, 100)) == 1);  // SMs of a kind at another clock
    CHECK(reuse_ratio({shared}, card) == 1);
    CHECK(reuse_ratio({registers}, gpu(204.8, 1000, 1)) == 1);  // its file states no SMs
    CHECK(reuse_ratio({}, card) == 1);
}

// Kernels for unaligned rows are those of Ampere: H100's reach 0.35 of 7.5 TFLOP/s an SM. H20's SMs
// have a peak of 1.9, below that rate.
TEST_CASE("products with unaligned rows keep the rate of an SM") {
    Cluster fast;
    fast.gpu = gpu(800, 1000, 100);
    CHECK(slower_sms({fast}, gpu(200, 1000, 100)) == Approx(4));
    CHECK(slower_sms({fast}, gpu(1600, 1000, 100)) == Approx(0.5));
    CHECK(slower_sms({fast}, gpu(200, 1000, 1)) == 1);  // its file states no SMs
    CHECK(slower_sms({}, gpu(200, 1000, 100)) == 1);
    CHECK(read_cluster("dgx-h100").kernel.gemm_unaligned == 0.35);
    CHECK(read_cluster("H20").kernel.gemm_unaligned == 1);
    CHECK(read_cluster("h800-x8").kernel.gemm_unaligned == Approx(0.35));
}

// RTX PRO 6000's 16-bit tiles come from A100's, at half the operations per cycle. Its fp4 tiles
// relate to its 16-bit ones as those of B200 and GB200, which beside it and B300 are the only ones
// with fp4.
TEST_CASE("tiles of fewer bits lose in the measure of a machine's tiles of sixteen") {
    const Cluster card = cluster_from_others("rtx-pro-6000-x8"), a100 = read_cluster("dgx-a100"),
                  b200 = read_cluster("b200-x8");
    CHECK(card.kernel.gemm_tile_reuse == Approx(a100.kernel.gemm_tile_reuse / 2));
    CHECK(card.kernel.fp4.tile_reuse / card.kernel.gemm_tile_reuse ==
          Approx(b200.kernel.fp4.tile_reuse / b200.kernel.gemm_tile_reuse).epsilon(0.02));
}

TEST_CASE("spreads of machines without measurements are data") {
    const TestFolder folder;
    const TransferSpreads spreads{{{"products", 0.1}, {"casts", 0.25}}, {{"products", 0.4}}};
    CHECK(read_transfer_spreads(
              folder.write("spreads.toml", write_transfer_spreads(spreads, "today"))) == spreads);
    CHECK(transfer_class("sustained_gemm_fp8") == "products");
    CHECK(transfer_class("mla_attention") == "attention");
    CHECK(transfer_class("combine_one_sided") == "dispatch");
    CHECK(transfer_class("all_reduce") == "collectives");
    CHECK(transfer_spread("gemm", false) >= transfer_spread("gemm", true));
}

// H200 is like H100; of consumer Blackwell there is only one. A machine one generation away helps
// to predict, but not as well.
TEST_CASE("a machine is like another of its fabric and generation") {
    CHECK(has_like_machine(read_cluster("dgx-h100")));
    CHECK(has_like_machine(read_cluster("gb300-nvl72")));
    CHECK_FALSE(has_like_machine(read_cluster("b300-x8")));  // one generation from B200
    CHECK_FALSE(has_like_machine(read_cluster("l40s-x8")));  // equally near to RTX PRO 6000
    CHECK_FALSE(has_like_machine(read_cluster("rtx-pro-6000-x8")));
    // Hopper's tensor cores read operands in another way
    CHECK_FALSE(has_like_machine(read_cluster("dgx-a100")));
}

// A file without multiprocessors means one: at a thousand times the rate per SM no efficiency would
// remain.
TEST_CASE("a machine that states no multiprocessors takes constants as they are") {
    const Gpu from = gpu(1000, 5000, 100), unstated = gpu(2000, 8000, 1);
    AttentionKernel attention;
    attention.fill = 400;
    CHECK(moved(attention, from, unstated) == attention);
    std::vector<Cluster> machines(3);
    for (std::size_t i = 0; i < 3; ++i) {
        machines[i].gpu = gpu(100.0 * static_cast<double>(i + 1), 1000, 100);
        machines[i].kernel.gemm_efficiency = 0.9 - 0.1 * static_cast<double>(i);
    }
    CHECK(efficiency_ratio(machines, machines, unstated, Dtype::bf16) == 1);
    CHECK(efficiency_ratio(machines, machines, gpu(400, 1000, 100), Dtype::bf16) < 1);
}
