#include <catch2/catch.hpp>

#include <set>

#include "model/graph/op.h"
#include "tests/literals.h"

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

// gemm: 2 m n k batch = 2 * 2 * 3 * 5 * 4 = 240. Groups with rows 2 + 0 + 4: 2 * 6 * 3 * 5 = 180,
// the same for a weight gradient. Fused, 3 blocks of 64 rows: 2 * 192 * 8 * 4 = 12288. Attention:
// scores and values, 2 * 2 * 6 * 8 * 4 = 768 per head; 2 sequences * 3 heads: 4608; causal half of
// it; backward twice. A flash backward computes the scores again: five products for two. With
// values of width 2 and queries of 4: 2 * 6 * 8 * (4 + 2) * 6 = 3456; backward 2 * 6 * 8 * (3 * 4 +
// 2 * 2) * 6.
TEST_CASE("arithmetic of products") {
    CHECK(flops_of(Gemm{2, 3, 5, 4}) == Flops(240));
    CHECK(flops_of(GroupedGemm{{2, 0, 4}, 3, 5}) == Flops(180));
    CHECK(flops_of(GroupedGemm{{2, 0, 4}, 3, 5, Dtype::fp16, true}) == Flops(180));
    CHECK(flops_of(FusedGemm{3, 1, 64, 2, 8, 4, 16_B}) == Flops(12288));
    CHECK(flops_of(Attention{2, 3, 6, 8, 4, false, false}) == Flops(4608));
    CHECK(flops_of(Attention{2, 3, 6, 8, 4, true, false}) == Flops(2304));
    CHECK(flops_of(Attention{2, 3, 6, 8, 4, false, true}) == Flops(9216));
    Attention flash{.batch = 2, .heads = 3, .seq_q = 6, .seq_k = 8, .head_dim = 4, .flash = true};
    CHECK(flops_of(flash) == Flops(4608));
    flash.backward = true;
    CHECK(flops_of(flash) == Flops(11520));
    flash.value_dim = 2;
    CHECK(flops_of(flash) == Flops(9216));
    flash.backward = false;
    CHECK(flops_of(flash) == Flops(3456));
    CHECK(flops_of(MemoryPass{8_B, 8_B}) == Flops(0));
}

// Off the diagonal of [[1, 2], [4, 8]] are 2 + 4; off that of 3 x 3 ones 6.
TEST_CASE("payload of collectives") {
    CHECK(bytes_moved(AllToAll{{1_B, 2_B, 4_B, 8_B}}) == 6_B);
    CHECK(bytes_moved(AllToAll{std::vector<Bytes>(9, 1_B)}) == 6_B);
    CHECK(bytes_moved(AllToAll{}) == 0_B);
    CHECK(bytes_moved(SendRecv{8_B, 2}) == 8_B);
    CHECK(bytes_moved(AllReduce{8_B}) == 8_B);
    CHECK(bytes_moved(Gemm{2, 3, 5}) == 0_B);
    CHECK(bytes_moved(MemoryPass{8_B, 8_B}) == 0_B);
}

// With 4 queries and 6 keys the causal query i sees 3 + i keys: 3 + 4 + 5 + 6 = 18 of 24. With a
// window of 4: 3 + 4 + 4 + 4 = 15; with it in a quarter of the layers: (15 + 3 x 18) / 4.
TEST_CASE("what a mask and a window leave to see") {
    Attention a{1, 1, 4, 6, 1, true, false};
    CHECK(seen_share(a) == Approx(18.0 / 24));
    a.window = 4;
    CHECK(seen_share(a) == Approx(15.0 / 24));
    CHECK(flops_of(a) == Flops(4 * 15));
    a.window_share = 0.25;
    CHECK(seen_share(a) == Approx((15 + 3 * 18) / 4.0 / 24));
    a.window_share = 1;
    a.window = 1;  // only the query itself
    CHECK(seen_share(a) == Approx(4.0 / 24));
    a.window = 7;  // larger than the number of keys
    CHECK(seen_share(a) == Approx(18.0 / 24));
    a.causal = false;
    CHECK(seen_share(a) == Approx(1));
    a.window = 2;
    CHECK(seen_share(a) == Approx(8.0 / 24));
    a.window = 0;
    CHECK(seen_share(a) == 1);
    // With more queries than keys those before the first key see none; at least half a key counts.
    CHECK(seen_share(Attention{1, 1, 8, 4, 1, true, false}) == Approx(0.5 / 4));
    CHECK(seen_share(Attention{1, 1, 4, 4, 1, true, false}) == Approx(10.0 / 16));
}

TEST_CASE("kernels have the type of their products, passes and exchanges none") {
    CHECK(dtype_of(Gemm{.dtype = Dtype::fp8}) == Dtype::fp8);
    CHECK(dtype_of(GroupedGemm{.rows = {}, .dtype = Dtype::bf16}) == Dtype::bf16);
    CHECK(dtype_of(FusedGemm{.remote_bytes_per_block = {}, .dtype = Dtype::fp32}) == Dtype::fp32);
    CHECK(dtype_of(Attention{.dtype = Dtype::fp4}) == Dtype::fp4);
    CHECK_FALSE(dtype_of(MemoryPass{}));
    CHECK_FALSE(dtype_of(HostWork{}));
    CHECK_FALSE(dtype_of(AllReduce{}));
    CHECK(flops_of(AllReduce{8_B}) == Flops(0));
    CHECK(flops_of(HostWork{}) == Flops(0));
    CHECK(bytes_moved(Barrier{}) == 0_B);
    for (const Op& op :
         {Op(AllGather{3_B}), Op(ReduceScatter{3_B}), Op(Broadcast{3_B}), Op(Reduce{3_B})})
        CHECK(bytes_moved(op) == 3_B);
}
