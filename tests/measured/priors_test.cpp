#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "measured/kernels_by_name.h"
#include "measured/priors.h"
#include "measured/read.h"
#include "measured/transfer.h"
#include "tests/model/files.h"

using namespace stepcast;

namespace {

const std::string plate =
    "nodes = 1\ngpus_per_node = 8\n[gpu]\nname = \"H100 SXM\"\nsms = 132\nmemory = \"80 GiB\"\n"
    "memory_bandwidth = \"3.35 TB/s\"\n[gpu.peak]\nbf16 = \"989.4 TFLOP/s\"\nfp8 = \"1.978 "
    "PFLOP/s\"\n[link.intra]\nbandwidth = \"450 GB/s\"\n";

}  // namespace

// With fp8, without fp4, on NVSwitch: like H100 and H200, so the median of the two is their mean;
// all state 5 us for host.call.
TEST_CASE("a nameplate alone takes the medians of the fitted machines nearest to it") {
    const TestFolder folder;
    const auto own =
        read_cluster(folder.write("own.toml", plate + "all_to_all_efficiency = 0.5\n"));
    const Cluster h100 = read_cluster("dgx-h100"), h200 = read_cluster("dgx-h200");
    CHECK(own.kernel.gemm_efficiency ==
          Approx((h100.kernel.gemm_efficiency + h200.kernel.gemm_efficiency) / 2).epsilon(1e-3));
    CHECK(own.intra.launch.si() == Approx((h100.intra.launch.si() + h200.intra.launch.si()) / 2));
    CHECK(own.intra.all_to_all_efficiency == 0.5);
    CHECK(own.host.call == h100.host.call);
    CHECK(own.intra.bandwidth == BytesPerSecond(450e9));
    CHECK(own.noise.step > 0.1);
    CHECK_FALSE(own.fitted);
}

// Kernels come by name, each with all its constants from one machine.
TEST_CASE("a nameplate takes kernels by name, each from one machine whole") {
    const auto own = read_cluster("gb300-nvl72");
    const auto like = read_cluster("b300-x8");  // the one with three times as much fp4 as fp8
    CHECK(own.kernel.attention_kernels.size() >= like.kernel.attention_kernels.size());
    CHECK(own.kernel.attention_kernels.front() ==
          moved(like.kernel.attention_kernels.front(), like.gpu, own.gpu));
}

// The same chip with a higher power limit: relative to it full clock would draw no more than on
// similar machines, and an operation takes no more energy than there.
TEST_CASE(
    "with a limit of power an operation takes the energy of alike machines, or what draws as much "
    "beyond the limit") {
    const auto draw = [](const Cluster& c) {
        return c.power.flop * c.kernel.gemm_efficiency * c.gpu.peaks[Dtype::bf16].si() /
               (c.power.limit - c.power.idle);
    };
    const Cluster gb300 = read_cluster("gb300-nvl72"), b300 = read_cluster("b300-x8"),
                  l40s = read_cluster("l40s-x8");
    CHECK(gb300.kernel.gemm_shared_operands);  // as Blackwell's data-centre chips, not as its cards
    CHECK_FALSE(l40s.kernel.gemm_shared_operands);
    CHECK(gb300.power.flop <= b300.power.flop);
    CHECK(draw(gb300) <= Approx(draw(b300)));
    CHECK(l40s.power.flop <= read_cluster("rtx-pro-6000-x8").power.flop);
}

// pcie-a100-x4 has no network: one that is stated beside it gets what all networked machines have,
// 0.8 of it and a start; what is stated wins.
TEST_CASE("an own network beside a machine without one is not reached whole") {
    const auto inter = [](std::vector<Override> set) {
        set.push_back({"cluster.preset", "pcie-a100-x4"});
        set.push_back({"cluster.link.inter.bandwidth", "25 GB/s"});
        return read_unchecked_experiment("moe_layer_alltoall", set).cluster.inter;
    };
    const Link two = inter({{"cluster.nodes", "2"}});
    CHECK(two.ring_efficiency == Approx(0.8));
    CHECK(two.latency > Seconds(0));
    CHECK(two.training == 1);  // a correction of other machines' laws
    CHECK(inter({{"cluster.nodes", "2"}, {"cluster.link.inter.ring_efficiency", "0.9"}})
              .ring_efficiency == 0.9);
    CHECK(inter({{"cluster.nodes", "1"}}).ring_efficiency == 1);  // not used
}

TEST_CASE("a shipped machine can be forecast from the others") {
    const Cluster left_out = cluster_from_others("b200-x8"), own = read_cluster("b200-x8");
    CHECK(left_out.gpu == own.gpu);
    CHECK(left_out.power.limit == own.power.limit);
    // the shipped one's SMs are slower
    CHECK(left_out.kernel.gemm_efficiency > read_cluster("gb200-nvl72").kernel.gemm_efficiency);
    CHECK_FALSE(left_out.fitted);
}

// One constant says nothing about the others, which stay those of similar machines. A file with
// constants of products, memory and links counts as complete.
TEST_CASE("what a file states counts, and constants of each kind are all its own") {
    const TestFolder folder;
    CHECK(read_cluster(folder.write("a.toml", plate + "[host]\ncall = \"9 us\"\n")).host.call ==
          Seconds(9e-6));
    const auto foretold = read_cluster(folder.write("p.toml", plate));
    auto expected = foretold;
    expected.kernel.gemm_efficiency = 0.7;
    auto own = read_cluster(folder.write("p.toml", plate + "[kernel]\ngemm_efficiency = 0.7\n"));
    CHECK(own == expected);
    own = read_cluster(folder.write(
        "b.toml",
        plate +
            "ring_efficiency = 0.7\n[kernel]\ngemm_efficiency = 0.7\nmemory_efficiency = 0.8\n"));
    CHECK(own.kernel.memory_efficiency == 0.8);
    CHECK(own.kernel.attention_kernels.empty());
    CHECK_FALSE(foretold.kernel.attention_kernels.empty());
    const auto host = read_cluster("host");  // no GPU
    CHECK(host.kernel.gemm_efficiency == KernelCosts{}.gemm_efficiency);
}

// H100 and H200 are the nearest, so medians are means. With a low power limit an operation takes so
// much energy that full clock draws as large a multiple of the available power as theirs; with a
// high limit it takes as much as theirs. A single 16-bit peak counts for both formats. Without a
// limit the clock falls as with theirs.
TEST_CASE("what a limit of power leaves, worked out from the machines alike") {
    const TestFolder folder;
    const auto with = [&](const std::string& power, const std::string& text = plate) {
        return read_cluster(folder.write("own.toml", text + power));
    };
    const Cluster a = read_cluster("dgx-h100"), b = read_cluster("dgx-h200");
    const auto draw = [](const Cluster& c, double peak) {
        return 1e-12 * c.power.flop * c.kernel.gemm_efficiency * peak /
               (c.power.limit - c.power.idle);
    };
    const double draws =
        (draw(a, a.gpu.peaks[Dtype::bf16].si()) + draw(b, b.gpu.peaks[Dtype::bf16].si())) / 2;
    const Cluster low = with("[power]\nlimit_w = 300\nidle_w = 50\n"),
                  high = with("[power]\nlimit_w = 3000\nidle_w = 50\n");
    CHECK(draw(low, 989.4e12) == Approx(draws));
    CHECK(low.power.flop < high.power.flop);
    CHECK(high.power.flop == Approx((a.power.flop + b.power.flop) / 2));
    CHECK(low.power.byte == Approx((a.power.byte + b.power.byte) / 2));
    std::string fp16 = plate;
    fp16.replace(fp16.find("bf16"), 4, "fp16");
    CHECK(with("[power]\nlimit_w = 300\nidle_w = 50\n", fp16).power.flop == Approx(low.power.flop));
    CHECK(with("").kernel.training_gemm ==
          Approx(low.kernel.training_gemm / std::sqrt(std::max(1.0, draws))));
}

// RTX PRO 6000's SMs multiply as fast as A100's (2.5 and 2.9 TFLOP/s) and six times slower than
// other Blackwell's. Kernels that all of them run are as on A100, in 8 bits with the difference
// that Hopper's have from 16 bits. It has no kernels that only Hopper and other Blackwell run,
// under any name. L40S has a similar machine.
TEST_CASE("where no machine is alike, attention is that of SMs as fast") {
    const Cluster rtx = cluster_from_others("rtx-pro-6000-x8"), a100 = read_cluster("dgx-a100");
    const auto named = [](const Cluster& c) {
        return *std::ranges::find(c.kernel.attention_kernels, "TRT-LLM FMHA",
                                  &AttentionKernel::name);
    };
    CHECK(named(rtx) == with_eight_bits(moved(named(a100), a100.gpu, rtx.gpu),
                                        {read_cluster("dgx-h100"), read_cluster("dgx-h200")},
                                        rtx.gpu));
    const auto runs = [](const Cluster& c) {
        return std::ranges::count(c.kernel.attention_kernels, "FlashInfer prefill",
                                  &AttentionKernel::name) == 1;
    };
    CHECK((runs(read_cluster("b200-x8")) && !runs(rtx)));
    const Cluster l40s = read_cluster("l40s-x8"), like = read_cluster("rtx-pro-6000-x8");
    CHECK(named(l40s) == moved(named(like), like.gpu, l40s.gpu));
}

// L40S's L2 of 96 MB holds three quarters of what RTX PRO 6000's 128 MB hold; for a file without an
// L2 nothing is known.
TEST_CASE("casts find in the L2 what goes with its size") {
    const Bytes of_rtx = read_cluster("rtx-pro-6000-x8").kernel.cast.cache;
    CHECK(read_cluster("l40s-x8").kernel.cast.cache / of_rtx == Approx(0.75));
    const TestFolder folder;
    const auto card = [&](const std::string& l2) {
        const std::string gpu =
            "[gpu]\nname = \"card\"\nsms = 142\nmemory = \"48 GB\"\nmemory_bandwidth = \"864 "
            "GB/s\"\n" +
            l2;
        const std::string peaks =
            "[gpu.peak]\ntf32 = \"183 TFLOP/s\"\nbf16 = \"362 TFLOP/s\"\nfp8 = \"733 TFLOP/s\"\n";
        const std::string link = "[link.intra]\nbandwidth = \"32 GB/s\"\n";
        return read_cluster(
                   folder.write("card.toml", "nodes = 1\ngpus_per_node = 8\nfabric = \"pcie\"\n" +
                                                 gpu + peaks + link))
            .kernel.cast.cache;
    };
    CHECK(card("") == of_rtx);
    CHECK(card("l2 = \"64 MB\"\n") / of_rtx == Approx(0.5));
}

// RTX PRO 6000 gets the median of the five other machines with such products, although its SMs are
// slower than theirs.
TEST_CASE("128-wide fp8 reaches the median share of the peak") {
    std::vector<double> shares;
    for (const char* name : {"dgx-h100", "dgx-h200", "b200-x8", "b300-x8", "gb200-nvl72"})
        shares.push_back(read_cluster(name).kernel.fp8_blocks.efficiency);
    std::ranges::sort(shares);
    CHECK(cluster_from_others("rtx-pro-6000-x8").kernel.fp8_blocks.efficiency == Approx(shares[2]));
}

// The same SMs on another board: H100's on PCIe are H100's, not those of the cards that share its
// slots.
TEST_CASE("kernels are those of the same SMs before those of the same board") {
    const Cluster card = read_cluster("h100-pcie-x8"), h100 = read_cluster("dgx-h100"),
                  h200 = read_cluster("dgx-h200"), rtx = read_cluster("rtx-pro-6000-x8");
    CHECK(card.kernel.gemm_shared_operands);
    // the median of two
    CHECK(card.kernel.gemm_tile_reuse ==
          Approx((h100.kernel.gemm_tile_reuse + h200.kernel.gemm_tile_reuse) / 2));
    CHECK(card.intra.ring_efficiency == rtx.intra.ring_efficiency);  // but its links are theirs
    CHECK(card.kernel.fp8.tile_reuse ==
          Approx((h100.kernel.fp8.tile_reuse + h200.kernel.fp8.tile_reuse) / 2));
}

// Without RTX PRO 6000 itself the only machine on PCIe is another maker's, with another library. So
// NCCL's costs and shares of links come from B200 and GB200, whose SMs run at 1.856 and 2.062 GHz.
// Its own run at 2.431: the same cycles take 0.763 and 0.848 of the time. It has no switches that
// add.
TEST_CASE("collectives are the maker's library's") {
    const Cluster rtx = cluster_from_others("rtx-pro-6000-x8"), b200 = read_cluster("b200-x8"),
                  gb200 = read_cluster("gb200-nvl72");
    const auto middle = [&](const auto& of) { return (of(b200.intra) + of(gb200.intra)) / 2; };
    CHECK(rtx.intra.ring_efficiency ==
          Approx(middle([](const Link& l) { return l.ring_efficiency; })));
    CHECK(rtx.intra.low_latency.efficiency ==
          Approx(middle([](const Link& l) { return l.low_latency.efficiency; })));
    CHECK(rtx.intra.low_latency.latency.si() ==
          Approx(middle([](const Link& l) { return l.low_latency.latency.si(); })));
    CHECK(rtx.intra.low_latency.launch.si() ==
          Approx((0.763 + 0.848) / 2 *
                 middle([](const Link& l) { return l.low_latency.launch.si(); }))
              .epsilon(2e-3));
    CHECK(rtx.intra.exchange_chunk == b200.intra.exchange_chunk);
    CHECK(rtx.intra.nvls_efficiency == 0);
    CHECK(rtx.intra.socket_bandwidth.si() * rtx.intra.ring_efficiency == Approx(11.5 / 32 * 64e9));
    CHECK(read_cluster("l40s-x8").intra.low_latency.launch ==
          read_cluster("rtx-pro-6000-x8").intra.low_latency.launch);
}

// An NVL72 rack's links are a rack's.
TEST_CASE("links of an NVLink domain are those of one of as many ranks") {
    const Cluster gb300 = read_cluster("gb300-nvl72"), gb200 = read_cluster("gb200-nvl72");
    CHECK(gb300.intra.ring_efficiency == gb200.intra.ring_efficiency);
    CHECK(gb300.intra.dispatch.efficiency == gb200.intra.dispatch.efficiency);
}

TEST_CASE(
    "between two sockets runs the share of a link that runs there on machines with such links") {
    const Cluster l40s = read_cluster("l40s-x8"), like = read_cluster("rtx-pro-6000-x8");
    CHECK(l40s.intra.socket_bandwidth / l40s.intra.bandwidth ==
          Approx(like.intra.socket_bandwidth / like.intra.bandwidth));
    CHECK(read_cluster("gb300-nvl72").intra.socket_bandwidth == BytesPerSecond(0));
}
