#include "model/priors.h"

#include <catch2/catch.hpp>

#include "tests/model/files.h"

using namespace stepcast;

namespace {

const std::string plate =
    "nodes = 1\ngpus_per_node = 8\n[gpu]\nname = \"H100 SXM\"\nsms = 132\nmemory = \"80 GiB\"\n"
    "memory_bandwidth = \"3.35 TB/s\"\n[gpu.peak]\nbf16 = \"989.4 TFLOP/s\"\n[link.intra]\nbandwidth = \"450 GB/s\"\n";

}  // namespace

// With four machines the median is the mean of the middle two; of host.call all four say 5 us.
TEST_CASE("a nameplate alone takes the medians of the fitted machines") {
    const TestFolder folder;
    const auto own = read_cluster(folder.write("own.toml", plate));
    std::vector<double> rates;
    for (const char* name : {"dgx-a100", "dgx-h100", "dgx-h200", "b200-x8"})
        rates.push_back(read_cluster(name).kernel.gemm_efficiency);
    std::sort(rates.begin(), rates.end());
    CHECK(own.kernel.gemm_efficiency == Approx((rates[1] + rates[2]) / 2));
    CHECK(own.host.call == read_cluster("dgx-h100").host.call);
    CHECK(own.intra.bandwidth == BytesPerSecond(450e9));
    CHECK(own.noise.step > 0.1);
    CHECK_FALSE(own.fitted);
}

TEST_CASE("what a file states counts, and constants of its own are all its own") {
    const TestFolder folder;
    CHECK(read_cluster(folder.write("a.toml", plate + "[host]\ncall = \"9 us\"\n")).host.call == Seconds(9e-6));
    const auto own = read_cluster(folder.write("b.toml", plate + "[kernel]\ngemm_efficiency = 0.7\n"));
    CHECK(own.kernel.memory_efficiency == KernelCosts{}.memory_efficiency);
    const auto host = read_cluster("host");  // no GPU
    CHECK(host.kernel.gemm_efficiency == KernelCosts{}.gemm_efficiency);
}
