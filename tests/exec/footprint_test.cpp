#include "exec/footprint.h"

#include <catch2/catch.hpp>

using namespace stepcast;

namespace {

Footprint of(const Op& op, std::size_t index = 0, std::size_t count = 1) {
    return footprint(op, index, count);
}

}  // namespace

// In floats. 3 x 7 and 7 x 5 into 3 x 5, twice; groups of 2, 0 and 3 rows of 7 into rows of 5, with
// weights of 7 x 5 each, or the other way round; four blocks of 2 rows, of which three of 9 bytes
// (3 floats) are moved.
TEST_CASE("products need their operands and their results") {
    CHECK(of(Gemm{3, 5, 7, 2, Dtype::fp32}) == Footprint{{2 * 21, 2 * 35}, {2 * 15}});
    CHECK(of(GroupedGemm{{2, 0, 3}, 5, 7, Dtype::fp32}) == Footprint{{5 * 7, 2 * 35}, {5 * 5}});
    CHECK(of(GroupedGemm{{2, 0, 3}, 5, 7, Dtype::fp32, true}) ==
          Footprint{{5 * 7, 5 * 5}, {2 * 35}});
    FusedGemm fused{};
    fused.blocks = 4;
    fused.remote_blocks = 3;
    fused.rows_per_block = 2;
    fused.n = 5;
    fused.k = 7;
    fused.remote_bytes_per_block = Bytes(9);
    CHECK(of(fused) == Footprint{{8 * 7, 35}, {8 * 5, 3 * 3}});
    CHECK(of(fused).input() == 91);
    CHECK(of(fused).output() == 49);
    fused.transfer = FusedGemm::Transfer::scatter;  // into other ranks' memory
    CHECK(of(fused) == Footprint{{8 * 7, 35}, {8 * 5}});
}

// Two of a batch, three heads of 5 x 11 queries and 7 x 11 keys and values; scores of one head.
// Backward also the result's gradient; out go three gradients, with scores and their gradients.
TEST_CASE("attention needs queries, keys and values of all heads and the scores of one") {
    const double q = 2 * 3 * 5 * 11, k = 2 * 3 * 7 * 11;
    CHECK(of(Attention{2, 3, 5, 7, 11, false, false, Dtype::fp32}) ==
          Footprint{{q, k, k}, {q, 5 * 7}});
    CHECK(of(Attention{2, 3, 5, 7, 11, false, true, Dtype::fp32}) ==
          Footprint{{q, k, k, q}, {q, k, k, 2 * 5 * 7}});
}

// 41 bytes are 11 floats, of three ranks at most 4 each. Roots and senders by their place among
// those who take part.
TEST_CASE("exchanges need what a rank sends and receives") {
    const Bytes bytes(41);
    CHECK(of(MemoryPass{Bytes(9), Bytes(41)}) == Footprint{{3}, {11}});
    CHECK(of(AllReduce{bytes}, 1, 3) == Footprint{{11}, {11}});
    CHECK(of(AllGather{bytes}, 1, 3) == Footprint{{4}, {11}});
    CHECK(of(ReduceScatter{bytes}, 1, 3) == Footprint{{11}, {4}});
    CHECK(of(Broadcast{bytes, 1}, 1, 3) == Footprint{{11}, {0}});
    CHECK(of(Broadcast{bytes, 1}, 0, 3) == Footprint{{0}, {11}});
    CHECK(of(Reduce{bytes, 1}, 1, 3) == Footprint{{11}, {11}});
    CHECK(of(Reduce{bytes, 1}, 2, 3) == Footprint{{11}, {0}});
    CHECK(of(SendRecv{bytes, 2}, 0, 2) == Footprint{{11}, {0}});
    CHECK(of(SendRecv{bytes, 2}, 1, 2) == Footprint{{0}, {11}});
    CHECK(of(Barrier{}, 1, 3) == Footprint{});
    CHECK(of(HostWork{}) == Footprint{});
    CHECK(float_count(Bytes(8)) == 2);
    CHECK(float_count(Bytes(9)) == 3);
}

TEST_CASE("a task's ranks are named once, in the order of its places") {
    const std::vector<Place> places{
        {3, Lane::send_up}, {1, Lane::compute}, {3, Lane::compute}, {2, Lane::host}};
    CHECK(participants(places) == std::vector<int>{3, 1, 2});
}
