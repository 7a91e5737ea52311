#include <set>

#include <catch2/catch.hpp>

#include "model/step.h"
#include "model/transformer/counts.h"
#include "model/transformer/layer_plans.h"
#include "model/transformer/stage.h"
#include "sim/bounds/shape.h"
#include "sim/costs/op_costs.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

// The times of a plan's tasks one after the other, summed directly.
struct Chain {
    double all = 0, kernels = 0, lead = 0, rest = 0, host = 0;
    bool waits = false;  // the host waits for the device
};

struct PricedPlans {
    Experiment experiment;
    RankShape shape = rank_shape(experiment);
    RankGroups groups = rank_groups(experiment.parallelism);
    Routing routing = routing_of(experiment);
    TaskGraph ops{1, experiment.cluster.launch_blocking};
    LayerPlans plans = layer_plans(ops, {experiment, shape, groups, routing});
    OpPrices prices{experiment.cluster};

    Chain chain(const Plan& plan, Phase phase, int rank = 0) {
        TaskGraph graph = ops;
        Stage(graph, {0}, {rank}).stamp(plan, phase);
        Chain c;
        bool exchanged = false;
        for (TaskId t = 0; t < graph.size(); ++t) {
            const bool sent = graph.places(t).front().lane() == Lane::collective;
            const double time =
                (sent ? prices.collective(graph.op(t), graph.group(graph.group_id(t)))
                      : prices.local(graph.op(t), phase))
                    .si();
            c.host +=
                static_cast<double>(graph.host_calls(t)) * host_call_time(experiment.cluster).si();
            c.waits = c.waits || (graph.on_host(t) && !graph.predecessors(t).empty());
            c.all += time;
            if (graph.on_host(t)) continue;
            if (sent) {
                exchanged = true;
                c.rest = 0;
                continue;
            }
            c.kernels += time;
            c.rest += time;
            if (!exchanged) c.lead += time;
        }
        return c;
    }
};

BoundShape timed_shape(PricedPlans& of) {
    BoundShape s = bound_shape(of.experiment, of.routing);
    CHECK_FALSE(s.timed);
    add_times(s, of.experiment, of.prices);
    return s;
}

// Two layers, the second with experts. Exchanges wait for the kernels before them, and the kernels
// after wait for the exchanges.
Experiment chained(double call) {
    Experiment e = small_gpt();
    e.workload.layers = 2;
    e.workload.moe.experts = 4;
    e.workload.moe.top_k = 2;
    e.workload.moe.dense_layers = 1;
    e.parallelism.tp = 2;
    e.parallelism.dp = e.parallelism.ep = 2;
    e.parallelism.global_batch = 4;
    e.runtime.exchanges.weight_gradient = false;
    e.parallelism.schedule = Schedule::zb_h1;
    e.cluster.interference = {};
    e.cluster.host = no_host_costs();
    e.cluster.host.call = Seconds(call);
    return e;
}

}  // namespace

// The bound of a chain is the sum of its tasks; so is its estimate, unless the host waits for the
// device. In a plan without an exchange everything counts as before the first and after the last
// exchange. No exchange overlaps a kernel, also where the host waits for the device in between.
TEST_CASE(
    "of plans that are chains a shape holds the sums of their tasks, and of those before and after "
    "exchanges") {
    const double call = GENERATE(0.0, 3e-6);
    PricedPlans of{chained(call)};
    const BoundShape s = timed_shape(of);
    int exchanging = 0;
    const auto compare = [&](std::size_t f, const Chain& c, bool rest) {
        CAPTURE(f);
        CHECK(s.lower[f] == Approx(c.all).epsilon(1e-12));
        if (!c.waits || call == 0) CHECK(s.estimate[f] == Approx(c.all).epsilon(1e-12));
        CHECK(s.computing[f] == Approx(c.kernels).epsilon(1e-12));
        CHECK(s.alone[f] == Approx(c.kernels).epsilon(1e-12));
        CHECK(s.lead[f] == Approx(c.lead).epsilon(1e-9));
        if (rest) CHECK(s.rest[f] == Approx(c.rest).epsilon(1e-9));
        if (c.kernels == c.all) return;
        ++exchanging;
        CHECK(s.lead[f] + s.rest[f] < s.estimate[f]);
    };
    const std::array<const PassPlans*, all_kinds.size()> kinds{&of.plans.dense, &of.plans.experts,
                                                               &of.plans.embedding, &of.plans.head};
    for (std::size_t k = 0; k < all_kinds.size(); ++k) {
        const PassPlans& p = *kinds[k];
        const auto kind = static_cast<UnitKind>(k);
        CAPTURE(k);
        const std::array<const Plan*, 4> passes{&p.forward, &p.backward, &p.input_backward,
                                                &p.weight_backward};
        for (std::size_t i = 0; i < 4; ++i) {
            const Chain c = of.chain(*passes[i], i == 0 ? Phase::forward : Phase::backward);
            compare(feature::unit(kind, static_cast<Pass>(i)), c, true);
            if (k > 1) continue;
            CHECK(s.lower[feature::host(kind, static_cast<Pass>(i))] == Approx(c.host));
            CHECK(s.estimate[feature::host(kind, static_cast<Pass>(i))] == Approx(c.host));
        }
        if (k > 1) continue;
        const Chain again = of.chain(p.recompute, Phase::backward);
        compare(feature::again(kind), again, false);
        CHECK(s.lower[feature::host_again(kind)] == Approx(again.host));
        CHECK(s.estimate[feature::host_again(kind)] == Approx(again.host));
    }
    // three passes of each kind of layer, their recomputation, and the head
    CHECK(exchanging >= 9);
}

// A host that waits for each kernel before issuing the next adds all its calls to the tasks. The
// device alone does not, and no issue time remains for which the host could be late.
TEST_CASE("where launches block a plan takes its tasks and what issuing each takes") {
    Experiment e = chained(3e-6);
    e.cluster.launch_blocking = true;
    PricedPlans of{e};
    const BoundShape s = timed_shape(of);
    const Chain forward = of.chain(of.plans.dense.forward, Phase::forward),
                backward = of.chain(of.plans.dense.backward, Phase::backward);
    CHECK(forward.host > 0);
    CHECK(s.lower[feature::unit(UnitKind::dense, Pass::forward)] == Approx(forward.all));
    CHECK(s.estimate[feature::unit(UnitKind::dense, Pass::forward)] ==
          Approx(forward.all + forward.host));
    CHECK(s.estimate[feature::unit(UnitKind::dense, Pass::backward)] ==
          Approx(backward.all + backward.host));
    CHECK(s.estimate[feature::host(UnitKind::dense, Pass::forward)] == 0);
    CHECK(s.rest[feature::unit(UnitKind::dense, Pass::forward)] == Approx(forward.rest));
}

// A skewed gate gives one of the two ranks' experts more tokens.
TEST_CASE(
    "of ranks with uneven experts the busiest bounds the step, and each pass is the longest of any "
    "rank") {
    Experiment e = chained(0);
    e.routing.kind = RoutingSpec::Kind::zipf;
    e.routing.skew = 1.1;
    PricedPlans of{e};
    REQUIRE_FALSE(of.routing.counts.empty());
    const BoundShape s = timed_shape(of);
    const PassPlans& p = of.plans.experts;
    double lower[2];
    for (const int rank : {0, 1})
        lower[rank] = of.chain(p.forward, Phase::forward, rank).all +
                      of.chain(p.backward, Phase::backward, rank).all;
    REQUIRE(lower[0] != lower[1]);
    const int busiest = lower[1] > lower[0] ? 1 : 0;
    const std::array<const Plan*, 4> passes{&p.forward, &p.backward, &p.input_backward,
                                            &p.weight_backward};
    for (std::size_t i = 0; i < 4; ++i) {
        const Phase phase = i == 0 ? Phase::forward : Phase::backward;
        const Chain most = of.chain(*passes[i], phase, busiest),
                    other = of.chain(*passes[i], phase, 1 - busiest);
        const std::size_t f = feature::unit(UnitKind::experts, static_cast<Pass>(i));
        CHECK(s.lower[f] == Approx(most.all).epsilon(1e-12));
        CHECK(s.estimate[f] == Approx(std::max(most.all, other.all)).epsilon(1e-12));
        CHECK(s.computing[f] == Approx(most.kernels).epsilon(1e-12));
        CHECK(s.rest[f] == Approx(most.rest).epsilon(1e-9));
    }
    const Chain most = of.chain(p.recompute, Phase::backward, busiest),
                other = of.chain(p.recompute, Phase::backward, 1 - busiest);
    REQUIRE(most.all != other.all);
    CHECK(s.lower[feature::again(UnitKind::experts)] == Approx(most.all).epsilon(1e-12));
    CHECK(s.estimate[feature::again(UnitKind::experts)] ==
          Approx(std::max(most.all, other.all)).epsilon(1e-12));
}

// Each kind of layer has its own weights; a stage has the matrices of the kinds in it: 1 dense, 2
// with experts, 3 both. Each shape counts once.
TEST_CASE("a shape holds the weights of every kind of unit and the matrices of every mixture") {
    PricedPlans of{chained(0)};
    const BoundShape s = timed_shape(of);
    const LayerContext context{of.experiment, of.shape, of.groups, of.routing};
    CHECK(s.units.weights[0].trained == layer_weights(context, 0).trained);
    CHECK(s.units.weights[1].trained == layer_weights(context, 1).trained);
    CHECK(s.units.weights[2].trained == embedding_weights(context).trained);
    CHECK(s.units.weights[0].trained.experts == 0);
    CHECK(s.units.weights[1].trained.experts > 0);
    CHECK(s.units.matrices[0].sum == 0);
    for (std::size_t there = 1; there < 4; ++there) {
        std::set<Matrix> different;
        for (std::size_t kind = 0; kind < 2; ++kind)
            if (there == 3 || there == kind + 1)
                for (const Matrix& m : layer_matrices(context, static_cast<int>(kind)))
                    different.insert(m);
        double sum = 0, largest = 0;
        for (const Matrix& m : different)
            sum += m.elements(), largest = std::max(largest, m.elements());
        CHECK(s.units.matrices[there].sum == sum);
        CHECK(s.units.matrices[there].largest == largest);
        CHECK(largest < sum);
    }
}

// With tied weights a head on another stage than the embedding needs a copy of its 1000 x 64
// elements, half of it on each of two ranks.
TEST_CASE("a head away from a tied embedding has a copy of it") {
    Experiment e = chained(0);
    e.workload.tied = true;
    PricedPlans of{e};
    const BoundShape s = timed_shape(of);
    const auto head = static_cast<std::size_t>(UnitKind::head);
    CHECK(s.copied_head.trained.dense - s.units.weights[head].trained.dense == 500 * 64);
}

TEST_CASE("prices of a group of one are nothing, and a product's price is that of its own shape") {
    const Experiment e = small_gpt();
    OpPrices prices(e.cluster);
    CHECK(prices.collective(AllReduce{Bytes(1e9)}, Group{}) == Seconds(0));
    CHECK(prices.collective(AllReduce{Bytes(1e9)}, Group{2, 1}) > Seconds(0));
    for (const long m : {64, 128, 4096})
        for (int again = 0; again < 2; ++again) {
            const Gemm gemm{m, 96, 32, 1, Dtype::bf16};
            CHECK(prices.local(gemm, Phase::forward) ==
                  op_time(gemm, Phase::forward, {}, e.cluster));
        }
}
