#include "sim/explain/elasticity.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "model/step.h"
#include "sim/explain/cluster_parameters.h"
#include "sim/explain/explain.h"
#include "sim/pipeline_notes.h"
#include "tests/graphs.h"
#include "tests/literals.h"
#include "tests/transformers.h"

using namespace stepcast;
using namespace stepcast::literals;

namespace {

// One pass of 850 kB at 0.85 x 1 TB/s takes 1 us, its launch 2.4 us.
TaskGraph one_pass() {
    TaskGraph graph;
    graph.add(graph.task_of("pass", Phase::forward, MemoryPass{Bytes(425e3), Bytes(425e3)}, 0),
              {graphs::compute(0)}, {});
    return graph;
}
Cluster one_rank() {
    Cluster c = small_gpt().cluster;
    c.kernel.launch = 2.4_us;
    c.kernel.memory_efficiency = 0.85;
    return c;
}

// Two stages of two tensor-parallel ranks, two replicas: has every kind of group.
Experiment hybrid() {
    Experiment e = small_gpt();
    e.parallelism.pp = e.parallelism.tp = e.parallelism.dp = 2;
    e.parallelism.global_batch = 8;
    e.cluster.nodes = 2;
    return e;
}

void for_each_parameter(
    const Experiment& e, double change,
    const std::function<void(WhatIf&, const Cluster&, const std::string&)>& check) {
    const TaskGraph graph = build_step(e, routing_of(e));
    WhatIf step(graph, e.cluster);
    for (const ClusterParameter& p : cluster_parameters(e.cluster))
        check(step, with_scaled(e.cluster, p.key, 1 + change), p.key);
}

const Elasticity& elasticity_of(const std::vector<Elasticity>& all, const std::string& key) {
    for (const Elasticity& e : all)
        if (e.key == key) return e;
    throw std::logic_error(key + " has no effect");
}

}  // namespace

// 10 % more bandwidth or efficiency: 1 us becomes 1 / 1.1 us; 10 % more launch: 0.24 us more.
TEST_CASE("what more of a parameter does to one memory pass is what its law says") {
    const TaskGraph graph = one_pass();
    const Cluster cluster = one_rank();
    WhatIf step(graph, cluster);
    std::vector<std::string> without;
    const std::vector<Elasticity> found = elasticities(step, cluster, 0.1, without);
    REQUIRE(found.size() == 3);
    CHECK(found[0].key == "kernel.launch");  // the strongest
    for (const char* key : {"gpu.memory_bandwidth", "kernel.memory_efficiency"}) {
        CHECK(elasticity_of(found, key).simulated.si() == Approx(1e-6 / 1.1 - 1e-6));
        CHECK(elasticity_of(found, key).along_path.si() == Approx(1e-6 / 1.1 - 1e-6));
    }
    CHECK(elasticity_of(found, "kernel.launch").simulated.si() == Approx(0.24e-6));
    CHECK(std::ranges::find(without, "link.intra.bandwidth") != without.end());
    CHECK(found.size() + without.size() == cluster_parameters(cluster).size());
}

// Under small changes the critical path stays the longest chain, so both ways to compute the
// changes agree.
TEST_CASE(
    "along the critical path and simulated again, small changes of every parameter are the same") {
    int felt = 0;
    for (Experiment e : {small_gpt(), hybrid(), small_moe()}) {
        e.cluster.intra.low_latency = {1_us, 1_us, 0.5};
        const double change = 1e-5;
        for_each_parameter(
            e, change, [&](WhatIf& step, const Cluster& other, const std::string& key) {
                CAPTURE(e.parallelism.pp, key);
                const Seconds simulated = step.simulated(other), along = step.along_path(other);
                CHECK(std::abs((simulated - along).si()) <=
                      1e-3 * change * step.timeline().end.si());
                felt += std::abs(along.si()) > 1e-2 * change * step.timeline().end.si();
            });
    }
    CHECK(felt > 10);
}

// The old path is a chain of the changed step, which is at least that long. No chain changes by
// more than the longest chain of changes.
TEST_CASE(
    "large changes are bounded by the critical path below and by the chain of changes above") {
    for (const Experiment& e : {hybrid(), small_moe()})
        for (const double change : {-0.5, 0.1, 1.0})
            for_each_parameter(
                e, change, [&](WhatIf& step, const Cluster& other, const std::string& key) {
                    CAPTURE(change, key);
                    const double rounding = 1e-12 * step.timeline().end.si();
                    const Seconds simulated = step.simulated(other);
                    CHECK(simulated.si() >= step.along_path(other).si() - rounding);
                    CHECK(std::abs(simulated.si()) <= step.most(other).si() + rounding);
                });
}

// With sigma = 0.1 the launch of 2.4 us moves by 2.4 sinh(0.1) us. The efficiency, which nobody
// fitted, moves its 1 us by sinh(0.15) us. The datasheet's bandwidth is exact.
TEST_CASE("what to measure next is what moves the step most within its error") {
    const TaskGraph graph = one_pass();
    Cluster cluster = one_rank();
    cluster.fitted.emplace();
    cluster.fitted->parameters = {{"kernel.launch", "2.4 us", "2 us", 0.1, true}};
    WhatIf step(graph, cluster);
    std::vector<std::string> without;
    std::vector<Uncertainty> found =
        uncertainties(step, cluster, elasticities(step, cluster, 0.1, without), 0.1);
    REQUIRE(found.size() == 2);
    CHECK(found[0].key == "kernel.launch");
    CHECK(found[0].source == Uncertainty::Source::fitted);
    const double launch = 2.4e-6 * std::sinh(0.1), efficiency = 1e-6 * std::sinh(0.15);
    CHECK(found[0].widening.si() == Approx(launch));
    CHECK(found[1].key == "kernel.memory_efficiency");
    CHECK(found[1].source == Uncertainty::Source::assumed);
    CHECK(found[1].widening.si() == Approx(efficiency));
    CHECK(found[0].share == Approx(launch * launch / (launch * launch + efficiency * efficiency)));
    cluster.fitted->parameters[0] = {"kernel.launch", "2.4 us", "2.4 us", 0.5, false};
    found = uncertainties(step, cluster, elasticities(step, cluster, 0.1, without), 0.1);
    CHECK(found[0].source == Uncertainty::Source::prior);
    CHECK(found[0].widening.si() == Approx(2.4e-6 * std::sinh(0.5)));
}

TEST_CASE("an explanation adds up: the path, the ranks, the variance") {
    for (const Experiment& e : {small_gpt(), hybrid(), small_moe()}) {
        const Explanation x = explain(e);
        Seconds path;
        for (const PathShare& share : x.path) path += share.time;
        CHECK(path.si() == Approx(x.step.si()));
        for (const IdleTime& i : {x.slowest, x.median})
            CHECK((i.busy + i.bubble + i.straggler + i.exposed_communication + i.host).si() ==
                  Approx(x.step.si()));
        double shares = 0;
        for (const Uncertainty& u : x.uncertainties) shares += u.share;
        CHECK(shares == Approx(1));
    }
    CHECK(explain(hybrid()).slowest.bubble > 0_s);
}

// Five stages of 3, 1, 5, 2 and 4 layers, the last with the head, each standing for the two ranks
// of its replicas. Ordered by work: 1, 3, then the first, which is the median. The parts of the
// path add up to as many tasks as the path has.
TEST_CASE("the median rank is that of median work, and the path's shares are by kind and link") {
    Experiment e = small_gpt();
    e.workload.layers = 15;
    e.cluster.nodes = 5;
    e.cluster.gpus_per_node = 2;
    e.parallelism.pp = 5;
    e.parallelism.dp = 2;
    e.parallelism.global_batch = 12;
    e.parallelism.stage_layers = {3, 1, 5, 2, 4};
    e.cluster.host = no_host_costs();
    const Explanation x = explain(e);
    const TaskGraph graph = build_step(e, {});
    REQUIRE(graph.rank_count() == 5);
    CHECK(x.median.rank == 0);
    CHECK(x.median.stands_for == 2);
    CHECK(x.slowest.rank == limiting_rank(graph, WhatIf(graph, e.cluster).timeline()));
    WhatIf step(graph, e.cluster);
    std::size_t tasks = 0;
    double variance = 0;
    for (const PathShare& share : x.path) {
        tasks += share.tasks;
        CHECK_FALSE(share.on_host);
        if (share.kind == "send_recv") CHECK(share.link == LinkLevel::leaf);
        if (share.kind == "gemm") CHECK(share.link == LinkLevel::none);
    }
    CHECK(tasks == step.path().size());
    CHECK(std::ranges::is_sorted(x.path, std::greater<>(), &PathShare::time));
    for (const Uncertainty& u : x.uncertainties) variance += u.widening.si() * u.widening.si();
    CHECK(x.uncertainty.si() == Approx(std::sqrt(variance)));
    e.cluster.host.call = Seconds(1e-3);  // large enough that all wait for it
    const PathShare first = explain(e).path.front();
    CHECK(first.kind == "issue");
    CHECK(first.on_host);
    CHECK(first.link == LinkLevel::none);
}

// Four GEMMs of one shape in two phases and all-reduces of two groups: one class per phase and one
// per group.
TEST_CASE("tasks of one op, phase and group are one price class") {
    TaskGraph graph(4);
    const OpId gemm = graph.add_op(graphs::small_gemm()), sum = graph.add_op(AllReduce{Bytes(8)});
    const NameId name = graph.name_id("task");
    for (int r = 0; r < 4; ++r) {
        const Place place(r, Lane::compute);
        graph.add({name, r < 2 ? Phase::forward : Phase::backward, gemm}, {&place, 1}, {});
    }
    for (int r = 0; r < 4; ++r) {
        const Place place(r, Lane::collective);
        graph.add(
            {name, Phase::forward, sum, 1, graph.add_group({.ranks = 2, .stride = 1 + r % 2})},
            {&place, 1}, {});
    }
    const PriceClasses classes(graph);
    CHECK(classes.size() == 4);
    CHECK(classes.of(0) == classes.of(1));
    CHECK(classes.of(1) != classes.of(2));
    CHECK(classes.of(4) == classes.of(6));
    CHECK(classes.of(4) != classes.of(5));
}
