#include <array>
#include <map>

#include <catch2/catch.hpp>

#include "sim/explain/basis.h"
#include "tests/graphs.h"
#include "tests/literals.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

// Ops of one rank in sequence, each with a given number of seconds.
struct BasisPath {
    TaskGraph graph{2};
    Costs costs;
    Cluster cluster;
    TaskId last = 0;

    BasisPath() {
        cluster.nodes = 2;
        cluster.gpus_per_node = 2;
    }
    BasisPath& then(const Op& op, double seconds, Lane lane = Lane::compute,
                    const Group& group = {}) {
        const bool first = costs.duration.empty();
        const NameId name = graph.name_id("task");
        const Place place(0, lane);
        const std::vector<TaskId> before =
            first ? std::vector<TaskId>{} : std::vector<TaskId>{last};
        last = graph.add({name, Phase::forward, graph.add_op(op), 1, graph.add_group(group)},
                         {&place, 1}, before);
        costs.duration.emplace_back(seconds);
        costs.issue.emplace_back(0);
        return *this;
    }
    std::map<std::string, double> shares() const {
        Timeline timeline;
        run_in_order(graph, costs, timeline, Record::waits);
        std::map<std::string, double> found;
        for (const CostBasis& b : basis_of(graph, costs, timeline, cluster)) found[b.key] = b.share;
        return found;
    }
    std::string only_key() const {
        const auto found = shares();
        return found.size() == 1 ? found.begin()->first : "several";
    }
};

}  // namespace

TEST_CASE("each kind of op rests on the constant that prices most of it") {
    const auto key_of = [](const Op& op, Lane lane = Lane::compute) {
        return BasisPath().then(op, 1, lane).only_key();
    };
    CHECK(key_of(graphs::small_gemm()) == "kernel.gemm_efficiency");
    CHECK(key_of(GroupedGemm{{2}, 8, 8, Dtype::bf16}) == "kernel.gemm_efficiency");
    Gemm product = graphs::small_gemm();
    product.unmeasured = Unmeasured::delta_rule;
    CHECK(key_of(product) == "workload.delta");
    Attention selected{1, 2, 8, 8, 16};
    selected.unmeasured = Unmeasured::sparse_attention;
    CHECK(key_of(selected) == "workload.indexer");
    CHECK(key_of(FusedGemm{}) == "kernel.fused_efficiency");
    Attention attention{1, 1, 8, 8, 8, true, false, Dtype::bf16};
    attention.flash = true;
    CHECK(key_of(attention) == "kernel.attention_efficiency");
    attention.flash = false;
    CHECK(key_of(attention) == "kernel.gemm_efficiency");
    BasisPath own_rate;
    own_rate.cluster.kernel.wgrad_efficiency = 0.5;
    CHECK(own_rate.then(GroupedGemm{{2}, 8, 8, Dtype::bf16, true}, 1).only_key() ==
          "kernel.wgrad_efficiency");
    BasisPath no_rate;
    no_rate.cluster.kernel.wgrad_efficiency = 0;
    CHECK(no_rate.then(GroupedGemm{{2}, 8, 8, Dtype::bf16, true}, 1).only_key() ==
          "kernel.gemm_efficiency");
    using Access = MemoryPass::Access;
    for (const auto& [access, key] : {std::pair(Access::stream, "memory"),
                                      {Access::transpose, "transpose"},
                                      {Access::optimizer, "optimizer"},
                                      {Access::rows, "row"},
                                      {Access::strided, "strided"}})
        CHECK(key_of(MemoryPass{8_B, 8_B, access}) == "kernel." + std::string(key) + "_efficiency");
    using Kind = HostWork::Kind;
    for (const auto& [kind, key] : {std::pair(Kind::framework, "framework"),
                                    {Kind::module, "module_forward"},
                                    {Kind::layer, "layer"},
                                    {Kind::exchange_setup, "exchange_setup"},
                                    {Kind::schedule, "schedule"},
                                    {Kind::assignment, "assignment"},
                                    {Kind::read, "read"},
                                    {Kind::flatten, "flatten"},
                                    {Kind::update, "update"},
                                    {Kind::gather, "gather"},
                                    {Kind::input, "input"},
                                    {Kind::expert_layer, "expert_layer"},
                                    {Kind::micro_batch, "micro_batch"},
                                    {Kind::exchange, "exchange"},
                                    {Kind::recompute, "recompute"}})
        CHECK(key_of(HostWork{kind, 1}, Lane::host) == "host." + std::string(key));
    CHECK(BasisPath().then(SendRecv{8_B, 1, true}, 1, Lane::host).only_key() == "host.message");
}

// Two nodes of two ranks: neighbours share a node, every other rank is on the next.
TEST_CASE("an exchange rests on a constant of the link that it crosses") {
    const auto key_of = [](const Op& op, const Group& group, int nodes = 2) {
        BasisPath path;
        path.cluster.nodes = nodes;
        return path.then(op, 1, Lane::collective, group).only_key();
    };
    const Group inside{2, 1}, between{2, 2};
    for (const Op& op : {Op(AllReduce{8_B}), Op(AllGather{8_B}), Op(ReduceScatter{8_B}),
                         Op(Broadcast{8_B}), Op(Reduce{8_B})}) {
        CHECK(key_of(op, inside) == "link.intra.ring_efficiency");
        CHECK(key_of(op, between) == "link.inter.ring_efficiency");
    }
    // one node has no other link
    CHECK(key_of(AllReduce{8_B}, between, 1) == "link.intra.ring_efficiency");
    const AllToAll slots{{0_B, 8_B, 8_B, 0_B}};
    AllToAll once = slots;
    once.row = 8_B;
    once.tokens = 1;
    REQUIRE(once.by_kernels());
    CHECK(key_of(slots, inside) == "link.intra.all_to_all_efficiency");
    CHECK(key_of(slots, between) == "link.inter.all_to_all_efficiency");
    CHECK(key_of(once, between) == "link.inter.dispatch_efficiency");
    CHECK(key_of(SendRecv{8_B}, between) == "link.inter.all_to_all_efficiency");
    CHECK(key_of(Barrier{}, inside) == "link.intra.latency");
}

TEST_CASE(
    "links whose curves were measured count as measured, of exchanges by either of two curves") {
    BasisPath path;
    path.then(AllReduce{8_B}, 2, Lane::collective, {2, 1})
        .then(SendRecv{8_B}, 1, Lane::collective, {2, 1});
    path.cluster.fitted.emplace();
    Timeline timeline;
    run_in_order(path.graph, path.costs, timeline, Record::waits);
    const auto measured = [&] {
        std::array<bool, 2> found{};
        const auto basis = basis_of(path.graph, path.costs, timeline, path.cluster);
        for (std::size_t i = 0; i < 2; ++i) found.at(i) = basis.at(i).measured;
        return found;
    };
    CHECK(measured() == std::array{false, false});
    path.cluster.intra.all_reduce = {{8_B, 1_s}};
    CHECK(measured() == std::array{true, false});
    path.cluster.intra.all_to_all = {{8_B, 1_s}};
    CHECK(measured() == std::array{true, true});
    path.cluster.intra.all_reduce = path.cluster.intra.all_to_all = {};
    path.cluster.intra.send_recv = {{8_B, 1_s}};
    CHECK(measured() == std::array{false, true});
}

// Of 2 + 3 + 5 s: shares of 0.5, 0.3 and 0.2, the largest first. Ops priced by measured points
// count as measured.
TEST_CASE("constants are named with their share of the critical path, the largest first") {
    BasisPath path;
    path.then(graphs::small_gemm(), 2)
        .then(MemoryPass{8_B, 8_B}, 5)
        .then(HostWork{}, 3, Lane::host);
    Timeline timeline;
    run_in_order(path.graph, path.costs, timeline, Record::waits);
    std::vector<CostBasis> found = basis_of(path.graph, path.costs, timeline, path.cluster);
    REQUIRE(found.size() == 3);
    CHECK(found[0].key == "kernel.memory_efficiency");
    CHECK(found[0].share == Approx(0.5));
    CHECK(found[1].key == "host.framework");
    CHECK(found[1].share == Approx(0.3));
    CHECK(found[2].key == "kernel.gemm_efficiency");
    CHECK(found[2].share == Approx(0.2));
    for (const CostBasis& b : found) CHECK_FALSE(b.measured);
    path.cluster.kernel.memory_curve = {{8_B, 1_s}};
    // without a fit the curve is another machine's
    CHECK_FALSE(basis_of(path.graph, path.costs, timeline, path.cluster)[0].measured);
    path.cluster.fitted.emplace();
    found = basis_of(path.graph, path.costs, timeline, path.cluster);
    CHECK(found[0].measured);
    CHECK_FALSE(found[2].measured);
    path.cluster.kernel.gemm_table = {{8, 8, 8, Dtype::bf16, 1_s}};
    CHECK(basis_of(path.graph, path.costs, timeline, path.cluster)[2].measured);
}
