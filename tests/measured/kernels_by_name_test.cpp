#include <catch2/catch.hpp>

#include "measured/kernels_by_name.h"
#include "measured/transfer.h"

using namespace stepcast;

namespace {

Cluster machine(double tflops, bool shared_operands, std::vector<std::string> kernels) {
    Cluster c;
    c.gpu.peaks[Dtype::bf16] = FlopsPerSecond(1e12 * tflops);
    c.gpu.memory_bandwidth = BytesPerSecond(2e12);
    c.gpu.sms = 100;
    c.kernel.gemm_shared_operands = shared_operands;
    for (const std::string& name : kernels) {
        AttentionKernel kernel;
        kernel.name = name;
        c.kernel.attention_kernels.push_back(kernel);
        ExpertKernel experts;
        experts.name = name;
        c.kernel.expert_kernels.push_back(experts);
    }
    return c;
}

std::vector<std::string> names(const auto& kernels) {
    std::vector<std::string> found;
    for (const auto& kernel : kernels) found.push_back(kernel.name);
    return found;
}

using Names = std::vector<std::string>;

}  // namespace

// Attention kernels for tensor cores that read shared memory tell nothing about cores that read
// registers, even with the same name. For expert layers they do.
TEST_CASE("attention's kernels come from machines whose tensor cores are fed alike") {
    const Cluster a = machine(250, false, {"plain"}), b = machine(500, false, {"slow", "plain"}),
                  h = machine(800, true, {"fused", "plain"});
    Cluster card = machine(240, false, {});
    lay_kernels(card, {a}, {h, a, b});
    CHECK(names(card.kernel.attention_kernels) == Names{"plain", "slow"});
    CHECK(names(card.kernel.expert_kernels) == Names{"plain", "fused", "slow"});
    Cluster server = machine(900, true, {});
    lay_kernels(server, {h}, {h, a, b});
    CHECK(names(server.kernel.attention_kernels) == Names{"fused", "plain"});
}

// The SM with fp8 does 8 TFLOP/s with 4,096 operations per cycle, at 1.95 GHz; the other 2.5 with
// 1,024, at 2.44. On the first, fp8 products reach half of the share of 16-bit ones: they lose as
// much time again, of which 2.5/8 remain, so 0.6 / (1 + 0.3125). Launches take 0.8 of the time.
// Casts move 3 * (1 + 1) times the bytes as there, 2 for each of the 2 + 1 times in 16 bits.
TEST_CASE(
    "what 8 bits change in a kernel of a machine without them is what they change in the one of "
    "its name") {
    Cluster old = machine(280, false, {"plain"}), h = machine(800, true, {"plain", "fused"});
    h.gpu.peaks[Dtype::fp8] = FlopsPerSecond(1.6e15);
    AttentionKernel& there = h.kernel.attention_kernels[0];
    there.efficiency = 0.8;
    there.fp8_efficiency = 0.4;
    there.fp8_launch = Seconds(5e-6);
    there.fp8_traffic = 3;
    there.traffic = there.cache = 1;
    Gpu card = machine(250, false, {}).gpu;
    AttentionKernel kernel;
    kernel.name = "plain";
    kernel.efficiency = 0.6;
    kernel.traffic = 2;
    kernel.cache = 1;
    CHECK(with_eight_bits(kernel, {old, h}, card) == kernel);  // the card has none itself
    card.peaks[Dtype::fp8] = FlopsPerSecond(5e14);
    const AttentionKernel found = with_eight_bits(kernel, {old, h}, card);
    CHECK(found.fp8_efficiency == Approx(0.6 / 1.3125));
    CHECK(found.fp8_launch.si() == Approx(4e-6));
    CHECK(found.fp8_traffic == Approx(2));
    CHECK(found.efficiency == 0.6);
    CHECK(with_eight_bits(kernel, {old}, card) == kernel);
    kernel.name = "another";
    CHECK(with_eight_bits(kernel, {old, h}, card) == kernel);

    kernel.name = "plain";  // so does a machine whose nearest one has no fp8
    old.kernel.attention_kernels = {kernel};
    Cluster own;
    own.gpu = card;
    lay_kernels(own, {old}, {old, h});
    CHECK(own.kernel.attention_kernels.at(0) ==
          with_eight_bits(moved(kernel, old.gpu, card), {old, h}, card));
}
