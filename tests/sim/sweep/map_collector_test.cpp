#include "sim/sweep/map_collector.h"

#include <catch2/catch.hpp>

#include "tests/literals.h"
#include "tests/transformers.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

SweepSpace of_keys(const std::vector<std::string>& vary) {
    std::vector<Axis> axes;
    for (const auto& text : vary) axes.push_back(parse_axis(text));
    return {small_gpt(), axes};
}

Candidate at_memory(std::uint64_t number, double estimate, Bytes peak, double tokens = 1) {
    return {{0, number}, Seconds(0), Seconds(estimate), peak, tokens, 0, 1};
}

ParallelPlan split(int tp, int pp) {
    ParallelPlan plan;
    Parallelism& p = plan.parallelism;
    p.tp = tp;
    p.pp = pp;
    return plan;
}

std::vector<std::uint64_t> numbers(const MapCollector& map, std::size_t most, int joined) {
    int limits_joined = 0;
    std::vector<std::uint64_t> found;
    for (const auto& [id, point] : map.best(most, limits_joined)) found.push_back(id.inner);
    CHECK(limits_joined == joined);
    return found;
}

}  // namespace

// Eight limits per octave from 1 MiB: 2 MiB is number 8, 1.5 MiB needs number 5 (8 log2 1.5 = 4.7).
TEST_CASE(
    "limits of memory rise by an eighth of an octave, and the least that holds a peak is its own") {
    CHECK(memory_limit(0) == 1_MiB);
    CHECK(memory_limit(8) == 2_MiB);
    CHECK(memory_limit(80).si() == Approx((1024_MiB).si()));
    CHECK(memory_limit_of(1_KiB) == 0);
    CHECK(memory_limit_of(1_MiB) == 0);
    CHECK(memory_limit_of(1.5 * 1_MiB) == 5);
    CHECK(memory_limit_of(2_MiB) == 8);
    CHECK(memory_limit_of(Bytes(1e30)) == 255);
    for (int number = 0; number < 255; ++number) {
        CHECK(memory_limit_of(memory_limit(number)) == number);
        CHECK(memory_limit_of(1.01 * memory_limit(number)) == number + 1);
    }
}

// For one pair of values a faster point takes the place, an equally fast one only with a smaller
// number. Each limit of memory has its own best point; a point without an estimate is never one.
TEST_CASE("the best of each pair of values and limit is kept") {
    const SweepSpace space = of_keys({"parallelism.tp=1,2", "parallelism.pp=1,2"});
    MapCollector map(space, false);
    map.note(at_memory(5, 3, 4_MiB), split(1, 1));
    map.note(at_memory(6, 2, 4_MiB), split(1, 1));
    map.note(at_memory(7, 2, 4_MiB), split(1, 1));
    map.note(at_memory(4, 2.5, 4_MiB), split(1, 1));
    map.note(at_memory(9, 0, 4_MiB), split(1, 1));
    CHECK(numbers(map, 100, 1) == std::vector<std::uint64_t>{6});
    map.note(at_memory(3, 2, 4_MiB), split(1, 1));
    CHECK(numbers(map, 100, 1) == std::vector<std::uint64_t>{3});
    map.note(at_memory(8, 9, 5_MiB), split(1, 1));
    map.note(at_memory(11, 9, 4_MiB), split(2, 1));
    map.note(at_memory(12, 9, 4_MiB), split(1, 2));
    CHECK(numbers(map, 100, 1) == std::vector<std::uint64_t>{3, 8, 11, 12});
    MapCollector other(space, false);
    other.legal = 7;
    map.legal = 3;
    other.note(at_memory(13, 8, 4_MiB), split(1, 2));
    other.note(at_memory(14, 10, 4_MiB), split(2, 1));
    other.note(at_memory(15, 8, 4_MiB), split(2, 2));
    map.add(other);
    CHECK(map.legal == 10);
    CHECK(numbers(map, 100, 1) == std::vector<std::uint64_t>{3, 8, 11, 13, 15});
}

// 10 s for 5 tokens are less per token than 9 s for 3.
TEST_CASE("where tokens rank the best of a place takes least for one") {
    const SweepSpace space = of_keys({"parallelism.tp=1,2", "parallelism.pp=1,2"});
    MapCollector map(space, true);
    map.note(at_memory(1, 9, 4_MiB, 3), split(1, 1));
    map.note(at_memory(2, 10, 4_MiB, 5), split(1, 1));
    CHECK(numbers(map, 100, 1) == std::vector<std::uint64_t>{2});
}

// Four points of one pair under limits 16 to 19 (from 4 MiB on, 9 % apart). Limits 16, 17 and 18,
// 19 join two by two and keep the faster point; then all four join. If the points are still too
// many, all points of the one limit are returned.
TEST_CASE("limits are joined two by two until the points are few enough") {
    const SweepSpace space = of_keys({"parallelism.tp=1,2", "parallelism.pp=1,2"});
    MapCollector map(space, false);
    const std::vector<double> estimates{7, 5, 3, 4};
    for (std::size_t i = 0; i < 4; ++i)
        map.note(at_memory(i, estimates[i], memory_limit(16 + static_cast<int>(i))), split(1, 1));
    CHECK(numbers(map, 4, 1) == std::vector<std::uint64_t>{0, 1, 2, 3});
    CHECK(numbers(map, 3, 2) == std::vector<std::uint64_t>{1, 2});
    CHECK(numbers(map, 1, 4) == std::vector<std::uint64_t>{2});
    CHECK(numbers(map, 0, 256) == std::vector<std::uint64_t>{2});
}

// 100 x 100 values of two keys are more places than a map has at first.
TEST_CASE("a map grows with its places") {
    const SweepSpace space = of_keys({"parallelism.tp=1..100", "parallelism.pp=1..100"});
    MapCollector one(space, false), other(space, false);
    for (int tp = 1; tp <= 100; ++tp)
        for (int pp = 1; pp <= 100; ++pp)
            (tp % 2 == 0 ? one : other)
                .note(at_memory(static_cast<std::uint64_t>(100 * tp + pp), 1, 4_MiB),
                      split(tp, pp));
    CHECK(numbers(one, 100'000, 1).size() == 5000);
    one.add(other);
    CHECK(numbers(one, 100'000, 1).size() == 10000);
}

// Of three keys each two are a pair, and the first and the last have their own best points.
TEST_CASE("every two keys are a pair of their own") {
    const SweepSpace space =
        of_keys({"parallelism.tp=1,2", "parallelism.pp=1,2", "workload.seq=64,128"});
    MapCollector map(space, false);
    std::vector<std::string> names;
    for (const VariedKey& key : map.keys()) names.push_back(key.name);
    CHECK(names == std::vector<std::string>{"parallelism.tp", "parallelism.pp", "workload.seq"});
    map.note({{0, 1}, {}, Seconds(3), 4_MiB, 1, 0, 1}, split(1, 2));
    // the longer sequence: best only of the pair without the length
    map.note({{1, 1}, {}, Seconds(2), 4_MiB, 1, 0, 1}, split(1, 2));
    // best only of the pair tp 2 and the shorter sequence
    map.note({{0, 2}, {}, Seconds(4), 4_MiB, 1, 0, 1}, split(2, 2));
    map.note({{1, 2}, {}, Seconds(1), 4_MiB, 1, 0, 1}, split(2, 2));
    int joined = 0;
    const auto best = map.best(100, joined);
    REQUIRE(best.size() == 4);
    CHECK(best.at({1, 1}).at[0] == 1);
    CHECK(best.at({1, 1}).at[1] == 2);
    CHECK(best.at({1, 1}).at[2] == 1);
    CHECK(best.at({0, 1}).at[2] == 0);
    CHECK(best.at({0, 1}).score == 3);
}
