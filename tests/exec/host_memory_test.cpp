#include <catch2/catch.hpp>

#include <algorithm>

#include "exec/host_memory.h"
#include "exec/host_rank.h"
#include "model/base/errors.h"

using namespace stepcast;

TEST_CASE(
    "a region hands out one piece after another and starts again when the next does not fit") {
    Region region(64);  // floats; pieces begin on lines of 16
    const float* begin = region.all().data();
    CHECK(region.take(20).data() == begin);
    CHECK(region.take(20).data() == begin + 32);
    CHECK(region.take(1).data() == begin);
    CHECK(region.take(64).data() == begin);
}

TEST_CASE("memory is planned for the largest task and for more than the cache") {
    TaskGraph graph(2, true);
    graph.add("copy", Phase::forward, MemoryPass{Bytes(4000), Bytes(400)},
              {Place(1, Lane::compute)}, {});
    const MemoryPlan small_cache = plan_memory(graph, 2, Bytes(400), Bytes(1e6));
    CHECK(small_cache.input >= 1000);
    CHECK(small_cache.input < 1100);
    const MemoryPlan large_cache = plan_memory(graph, 2, Bytes(40000), Bytes(1e6));
    CHECK(large_cache.input >= 7500);  // 1.5 * 40000 B / 2 ranks / 4 B
    CHECK(large_cache.output >= 7500);
}

// Of 4,000 and 400 bytes: 1,000 and 100 floats and a line of 16. 1.5 x 40,000 bytes of cache on two
// ranks are 7,500 floats; a cache of a terabyte asks for 256 MiB a region.
TEST_CASE(
    "a region holds the largest of any task, or half as much again as its share of the cache, up "
    "to 256 MiB") {
    TaskGraph graph(2, true);
    graph.add("copy", Phase::forward, MemoryPass{Bytes(4000), Bytes(400)},
              {Place(1, Lane::compute)}, {});
    graph.add("sum", Phase::forward, MemoryPass{Bytes(8), Bytes(800)}, {Place(1, Lane::compute)},
              {});
    const auto plan = [&](double cache, double available) {
        return plan_memory(graph, 2, Bytes(cache), Bytes(available));
    };
    CHECK(plan(0, 1e6).input == 1016);
    CHECK(plan(0, 1e6).output == 216);
    CHECK(plan(40'000, 1e6).input == 7516);
    CHECK(plan(40'000, 1e6).output == 7516);
    CHECK(plan(1e12, 4 * 268'435'456.0).input == 268'435'456 / 4 + 16);
    CHECK_NOTHROW(plan(0, 2 * 1200 * 4));
    CHECK_THROWS_WITH(plan(0, 2 * 1200 * 4 - 1),
                      Catch::Contains("2 ranks here need 9.6 kB (largest task 0 \"copy\")"));
}

TEST_CASE("each rank's memory begins with numbers of its own and with zeros") {
    const MemoryPlan plan{100, 40};
    HostMemory first = allocate(plan, 0), second = allocate(plan, 1), again = allocate(plan, 0);
    CHECK(first.input.all().size() == 112);  // whole lines
    CHECK(first.output.all().size() == 48);
    CHECK(std::ranges::equal(first.input.all(), again.input.all()));
    CHECK_FALSE(std::ranges::equal(first.input.all(), second.input.all()));
    CHECK(std::ranges::all_of(first.output.all(), [](float value) { return value == 0; }));
}

// A line of memory more than is there is another allocation; the same or less is not.
TEST_CASE("a rank keeps its memory for graphs that need no more") {
    HostRank rank;
    const auto memory_of = [&](const MemoryPlan& plan) {
        rank.prepare(plan, 1);
        rank.attach(0);
        return rank.memory().input.take(16).data();
    };
    const float* first = memory_of({112, 48});
    CHECK(rank.kept() == Bytes(4 * (112 + 48)));
    CHECK(memory_of({112, 48}) == first);  // from the start again
    CHECK(memory_of({16, 16}) == first);
    CHECK(rank.kept() == Bytes(4 * (112 + 48)));
    memory_of({112, 64});
    CHECK(rank.kept() == Bytes(4 * (112 + 64)));
}

TEST_CASE("a graph that does not fit is refused with the largest task, also for absurd sizes") {
    TaskGraph graph(1, true);
    graph.add("small", Phase::forward, Gemm{8, 8, 8, 1, Dtype::fp32}, {Place(0, Lane::compute)},
              {});
    graph.add("huge", Phase::forward, Gemm{1L << 40, 1L << 40, 8, 1, Dtype::fp32},
              {Place(0, Lane::compute)}, {});
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
