#include <catch2/catch.hpp>

#include "exec/host_memory.h"
#include "model/errors.h"

using namespace stepcast;

TEST_CASE("a region hands out one piece after another and starts again when the next does not fit") {
    Region region(64);  // floats; pieces begin on lines of 16
    const float* begin = region.all().data();
    CHECK(region.take(20).data() == begin);
    CHECK(region.take(20).data() == begin + 32);
    CHECK(region.take(1).data() == begin);
    CHECK(region.take(64).data() == begin);
}

TEST_CASE("memory is planned for the largest task and for more than the cache") {
    TaskGraph graph(2, true);
    graph.add("copy", Phase::forward, MemoryPass{Bytes(4000), Bytes(400)}, {Place(1, Lane::compute)}, {});
    const MemoryPlan small_cache = plan_memory(graph, 2, Bytes(400), Bytes(1e6));
    CHECK(small_cache.input >= 1000);
    CHECK(small_cache.input < 1100);
    const MemoryPlan large_cache = plan_memory(graph, 2, Bytes(40000), Bytes(1e6));
    CHECK(large_cache.input >= 7500);  // 1.5 * 40000 B / 2 ranks / 4 B
    CHECK(large_cache.output >= 7500);
}

TEST_CASE("a graph that does not fit is refused with the largest task, also for absurd sizes") {
    TaskGraph graph(1, true);
    graph.add("small", Phase::forward, Gemm{8, 8, 8, 1, Dtype::fp32}, {Place(0, Lane::compute)}, {});
    graph.add("huge", Phase::forward, Gemm{1L << 40, 1L << 40, 8, 1, Dtype::fp32}, {Place(0, Lane::compute)}, {});
    CHECK_THROWS_AS(plan_memory(graph, 1, Bytes(0), Bytes(1e9)), ConfigError);
    CHECK_THROWS_WITH(plan_memory(graph, 1, Bytes(0), Bytes(1e9)),
                      Catch::Contains("task 1 \"huge\"") && Catch::Contains("the host has 1 GB"));
}

TEST_CASE("random buffers are neither constant nor out of range") {
    Region region(1000);
    fill_random(region.all(), 3);
    float least = 1, most = -1;
    for (const float value : region.all()) {
        least = std::min(least, value);
        most = std::max(most, value);
    }
    CHECK(least >= -1.0f);
    CHECK(most < 1.0f);
    CHECK(most - least > 1.5f);
}
