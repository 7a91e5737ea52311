#include <functional>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "exec/footprint.h"
#include "exec/rank_group.h"
#include "exec/shared_collectives.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

using Floats = std::vector<float>;

// Runs `body(group, index)` for three participants at once; twice, so that a second use of the
// group is covered.
void with_three_ranks(const std::function<void(RankGroup&, std::size_t)>& body) {
    const FailedRank failed{-1};
    RankGroup group({0, 2, 5}, Patience{Seconds(20), false}, failed);
    std::vector<std::thread> threads;
    for (std::size_t index = 0; index < 3; ++index)
        threads.emplace_back([&, index] {
            body(group, index);
            body(group, index);
        });
    for (std::thread& thread : threads) thread.join();
}

// Rank r's values: r + 1, 10 (r + 1), 100 (r + 1), ..
Floats values_of(std::size_t rank, std::size_t count) {
    Floats values;
    float factor = 1;
    for (std::size_t i = 0; i < count; ++i, factor *= 10)
        values.push_back(factor * static_cast<float>(rank + 1));
    return values;
}

}  // namespace

TEST_CASE("all-reduce leaves the sum on every rank") {
    std::vector<Floats> out(3, Floats(5));
    with_three_ranks([&](RankGroup& group, std::size_t i) {
        Floats in = values_of(i, 5);
        communicate(group, i, AllReduce{20_B}, {{in}, {out[i]}});
    });
    // (1 + 2 + 3) 10^i
    for (const Floats& sum : out) CHECK(sum == Floats{6, 60, 600, 6000, 60000});
}

// 5 elements over 3 ranks: [0, 1), [1, 3), [3, 5), in buffers for two.
TEST_CASE("reduce-scatter leaves each rank its part of the sum") {
    std::vector<Floats> out(3, Floats(2));
    with_three_ranks([&](RankGroup& group, std::size_t i) {
        Floats in = values_of(i, 5);
        communicate(group, i, ReduceScatter{20_B}, {{in}, {out[i]}});
    });
    CHECK(out == std::vector<Floats>{{6, 0}, {60, 600}, {6000, 60000}});
}

TEST_CASE("all-gather joins the parts of all ranks, of unequal sizes too") {
    std::vector<Floats> out(3, Floats(5));
    with_three_ranks([&](RankGroup& group, std::size_t i) {
        Floats in = values_of(i, 2);
        communicate(group, i, AllGather{20_B}, {{in}, {out[i]}});
    });
    for (const Floats& all : out) CHECK(all == Floats{1, 2, 20, 3, 30});
}

TEST_CASE("broadcast and reduce name their root by its position among the participants") {
    std::vector<Floats> copies{Floats(3), {}, Floats(3)}, sums{{}, {}, Floats(3)};
    with_three_ranks([&](RankGroup& group, std::size_t i) {
        Floats in = values_of(i, 3);
        communicate(group, i, Broadcast{12_B, 1},
                    {{i == 1 ? in : std::span<float>()}, {copies[i]}});
        communicate(group, i, Reduce{12_B, 2}, {{in}, {sums[i]}});
    });
    CHECK(copies == std::vector<Floats>{{2, 20, 200}, {}, {2, 20, 200}});
    CHECK(sums == std::vector<Floats>{{}, {}, {6, 60, 600}});
}

TEST_CASE("all-to-all delivers every row to its target, in the order of the sources") {
    // Source s sends counts[s][t] rows tagged 100 s + 10 t + row to target t; some pairs exchange
    // nothing.
    const std::vector<std::size_t> counts{0, 2, 1, 3, 0, 0, 1, 2, 0};
    AllToAll op;
    for (const std::size_t count : counts) op.bytes.push_back(static_cast<double>(count) * 4_B);
    std::vector<Floats> out{Floats(4), Floats(4), Floats(1)};
    with_three_ranks([&](RankGroup& group, std::size_t s) {
        Floats in;
        for (std::size_t t = 0; t < 3; ++t)
            for (std::size_t row = 0; row < counts[3 * s + t]; ++row)
                in.push_back(static_cast<float>(100 * s + 10 * t + row));
        communicate(group, s, op, {{in}, {out[s]}});
    });
    CHECK(out == std::vector<Floats>{{100, 101, 102, 200}, {10, 11, 210, 211}, {20}});
}

TEST_CASE("send and receive moves all pieces from the first to the second participant") {
    const FailedRank failed{-1};
    RankGroup pair({1, 0}, Patience{Seconds(20), false}, failed);
    Floats in = values_of(0, 7), out(7);
    std::thread sender([&] { communicate(pair, 0, SendRecv{28_B, 3}, {{in}, {}}); });
    communicate(pair, 1, SendRecv{28_B, 3}, {{}, {out}});
    sender.join();
    CHECK(out == in);
}

TEST_CASE("what one rank does alone is no collective") {
    const FailedRank failed{-1};
    RankGroup pair({0, 1}, Patience{}, failed);
    CHECK_THROWS_AS(communicate(pair, 0, Gemm{}, {}), std::logic_error);
}

TEST_CASE("a meeting names the rank that does not come") {
    const FailedRank failed{-1};
    RankGroup group({4, 7}, Patience{Seconds(0.02), false}, failed);
    CHECK_THROWS_WITH(group.meet(0), "rank 7 did not arrive within 20 ms");
}

TEST_CASE("a meeting ends at once when a rank has failed") {
    const FailedRank failed{7};
    RankGroup group({4, 7}, Patience{Seconds(1000), false}, failed);
    CHECK_THROWS_AS(group.meet(0), DeviceError);
}

TEST_CASE("an exchange keeps on a rank what it sends to itself") {
    // bytes[source * 2 + target]; 10 B are 3 floats, rounded up
    const AllToAll op{{Bytes(400), Bytes(8), Bytes(10), Bytes(400)}};
    const ExchangeCounts first = exchange_counts(op, 0, 2);
    CHECK(first.to == std::vector<std::size_t>{0, 2});
    CHECK(first.from == std::vector<std::size_t>{0, 3});
    CHECK(footprint(op, 1, 2) == Footprint{{3}, {2}});
}
