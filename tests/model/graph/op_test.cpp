#include <catch2/catch.hpp>

#include <set>

#include "model/graph/op.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

std::vector<Op> one_of_each() {
    return {Gemm{2, 3, 5},
            GroupedGemm{{2, 0, 4}, 3, 5},
            FusedGemm{},
            Attention{},
            MemoryPass{8_B, 8_B},
            AllReduce{8_B},
            AllGather{8_B},
            ReduceScatter{8_B},
            AllToAll{{1_B, 2_B, 4_B, 8_B}},
            Broadcast{8_B},
            Reduce{8_B},
            SendRecv{8_B, 2},
            Barrier{},
            HostWork{}};
}

}  // namespace

TEST_CASE("every kind of op has a name of its own") {
    std::set<std::string_view> names;
    for (const Op& op : one_of_each()) names.insert(kind_name(op));
    CHECK(names.size() == std::variant_size_v<Op>);
    CHECK(one_of_each().size() == std::variant_size_v<Op>);
    CHECK(names.contains("all_to_all"));
}

TEST_CASE("an op is a kernel of products, a collective, or neither") {
    int kernels = 0, collectives = 0;
    for (const Op& op : one_of_each()) {
        CHECK_FALSE((is_compute(op) && is_collective(op)));
        kernels += is_compute(op);
        collectives += is_collective(op);
    }
    CHECK(kernels == 4);
    CHECK(collectives == 8);
    CHECK_FALSE(is_collective(MemoryPass{}));
    CHECK_FALSE(is_collective(HostWork{}));
    CHECK(is_collective(Barrier{}));
}

// gemm: 2 m n k batch = 2 * 2 * 3 * 5 * 4 = 240. Groups: rows 2 + 0 + 4: 2 * 6 * 3 * 5 = 180, the same as a weight
// gradient. Fused: 3 blocks of 64 rows: 2 * 192 * 8 * 4 = 12288. Attention: scores and values, 2 * 2 * 6 * 8 * 4 = 768
// a head, 2 sequences * 3 heads: 4608; causal half of it; backward twice.
TEST_CASE("arithmetic of products") {
    CHECK(flops_of(Gemm{2, 3, 5, 4}) == Flops(240));
    CHECK(flops_of(GroupedGemm{{2, 0, 4}, 3, 5}) == Flops(180));
    CHECK(flops_of(GroupedGemm{{2, 0, 4}, 3, 5, Dtype::fp16, true}) == Flops(180));
    CHECK(flops_of(FusedGemm{3, 1, 64, 2, 8, 4, 16_B}) == Flops(12288));
    CHECK(flops_of(Attention{2, 3, 6, 8, 4, false, false}) == Flops(4608));
    CHECK(flops_of(Attention{2, 3, 6, 8, 4, true, false}) == Flops(2304));
    CHECK(flops_of(Attention{2, 3, 6, 8, 4, false, true}) == Flops(9216));
    CHECK(flops_of(MemoryPass{8_B, 8_B}) == Flops(0));
}

// Off the diagonal of [[1, 2], [4, 8]]: 2 + 4. Of 3 x 3 ones: 6.
TEST_CASE("payload of collectives") {
    CHECK(bytes_moved(AllToAll{{1_B, 2_B, 4_B, 8_B}}) == 6_B);
    CHECK(bytes_moved(AllToAll{std::vector<Bytes>(9, 1_B)}) == 6_B);
    CHECK(bytes_moved(AllToAll{}) == 0_B);
    CHECK(bytes_moved(SendRecv{8_B, 2}) == 8_B);
    CHECK(bytes_moved(AllReduce{8_B}) == 8_B);
    CHECK(bytes_moved(Gemm{2, 3, 5}) == 0_B);
    CHECK(bytes_moved(MemoryPass{8_B, 8_B}) == 0_B);
}
