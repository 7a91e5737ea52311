#include "exec/kernel_table.h"

#include <catch2/catch.hpp>

#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::literals;

// Rank 0 has three products, two of which ran alike, an attention that the graph wants in one
// kernel, and an exchange with rank 1. The exchange of rank 0 alone runs nothing. Rank 1 has the
// common one.
TEST_CASE("a run says by kind what ran its tasks, most tasks first") {
    TaskGraph graph(2);
    const Place here(0, Lane::compute), there(1, Lane::compute);
    graph.add("one", Phase::forward, AllReduce{4_B}, {Place(0, Lane::collective)}, {});
    graph.add("both", Phase::forward, AllReduce{4_B}, {here, there}, {});
    graph.add("a", Phase::forward, Attention{1, 1, 8, 8, 8, true, false, Dtype::bf16, true}, {here},
              {});
    for (const long m : {1L, 2L, 3L})
        graph.add("p", Phase::forward, Gemm{m, 8, 8, 1, Dtype::bf16}, {here}, {});
    const auto ran = [](TaskId, const Op& op) -> std::string {
        const auto* gemm = std::get_if<Gemm>(&op);
        return gemm == nullptr ? "X" : gemm->m == 1 ? "small" : "large";
    };
    CHECK(kernel_table(graph, 0, ran) ==
          std::vector<std::string>{"gemm, 2 tasks: large", "gemm, 1 task: small",
                                   "flash attention, 1 task: X", "all_reduce, 1 task: X"});
    CHECK(kernel_table(graph, 1, ran) == std::vector<std::string>{"all_reduce, 1 task: X"});
}
