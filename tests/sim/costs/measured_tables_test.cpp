#include <catch2/catch.hpp>

#include "model/base/errors.h"
#include "sim/costs/measured_tables.h"
#include "sim/costs/op_costs.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::literals;

// 10 us at 100 B, 20 us at 200 B, 60 us at 300 B: 15 us at 150 B, 10 us below 100 B, 60 + 0.4 us
// per byte beyond 300 B.
TEST_CASE("a curve is met at its points, linear between them, flat below and straight on beyond") {
    const Curve curve{{100_B, 10_us}, {200_B, 20_us}, {300_B, 60_us}};
    CHECK(interpolate(curve, 100_B).si() == Approx(10e-6));
    CHECK(interpolate(curve, 200_B).si() == Approx(20e-6));
    CHECK(interpolate(curve, 150_B).si() == Approx(15e-6));
    CHECK(interpolate(curve, 1_B).si() == Approx(10e-6));
    CHECK(interpolate(curve, 400_B).si() == Approx(100e-6));
}

// Rates of 1 and 4 GFLOP/s at k = 100 and k = 10000 weigh the same half-way in log k: sqrt(1 * 4) =
// 2 GFLOP/s.
TEST_CASE("an unseen gemm shape gets the geometric mean of equally near rates") {
    const double flops = 2.0 * 100 * 100;
    const std::vector<GemmPoint> table{
        {100, 100, 100, Dtype::fp32, Seconds(flops * 100 / 1e9)},
        {100, 100, 10000, Dtype::fp32, Seconds(flops * 10000 / 4e9)}};
    CHECK(gemm_table_time(table, 100, 100, 100, Dtype::fp32) == table[0].time);
    CHECK(gemm_table_time(table, 100, 100, 1000, Dtype::fp32).si() == Approx(flops * 1000 / 2e9));
    CHECK_THROWS_AS(gemm_table_time(table, 100, 100, 100, Dtype::fp16), ConfigError);
}

// A curve of streams, 30 us at 100 B. Transposes reach a third of a stream's rate: 90 us; the
// optimizer two thirds: 45 us.
TEST_CASE(
    "memory passes of other access patterns scale the curve of streams by their efficiencies") {
    Cluster cluster;
    cluster.kernel.memory_curve = {{100_B, 30_us}, {200_B, 60_us}};
    cluster.kernel.memory_efficiency = 0.9;
    cluster.kernel.transpose_efficiency = 0.3;
    cluster.kernel.optimizer_efficiency = 0.6;
    const auto time = [&](MemoryPass::Access access) {
        return op_time(MemoryPass{60_B, 40_B, access}, Phase::forward, {}, cluster).si();
    };
    CHECK(time(MemoryPass::Access::stream) == Approx(30e-6));
    CHECK(time(MemoryPass::Access::transpose) == Approx(90e-6));
    CHECK(time(MemoryPass::Access::optimizer) == Approx(45e-6));
}
