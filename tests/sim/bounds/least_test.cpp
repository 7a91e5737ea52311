#include <random>

#include <catch2/catch.hpp>

#include "model/step.h"
#include "sim/bounds/bounds.h"
#include "sim/bounds/least.h"
#include "sim/engine/contention.h"
#include "tests/graphs.h"
#include "tests/literals.h"
#include "tests/simulated.h"
#include "tests/split_space.h"
#include "tests/transformers.h"

using namespace stepcast;
using namespace stepcast::graphs;
using namespace stepcast::literals;

namespace {

// A gemm, then an exchange beside a second gemm, then a pass that waits for both.
TaskGraph forked_plan() {
    TaskGraph plan;
    const TaskId first = plan.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    const TaskId sum = plan.add("sum", Phase::forward, AllReduce{1024_B}, {collective(0)}, {first});
    const TaskId beside = plan.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {first});
    plan.add("pass", Phase::forward, small_pass(), {compute(0)}, {beside, sum});
    return plan;
}

// Eight layers on four nodes of four, with links, buckets, hosts and slowdowns picked at random.
Experiment random_machine(std::mt19937_64& random) {
    const auto pick = [&](std::initializer_list<double> values) {
        return values.begin()[random() % values.size()];
    };
    Experiment e = small_gpt();
    e.workload.layers = 8;
    e.workload.hidden = static_cast<int>(pick({512, 1024}));
    e.workload.heads = 16;
    e.workload.ffn = 4 * e.workload.hidden;
    e.workload.seq = static_cast<int>(pick({256, 512}));
    if (random() % 4 == 0) {
        e.workload.moe.experts = 8;
        e.workload.moe.top_k = 2;
        e.workload.moe.dense_layers = 1;
    }
    Cluster& c = e.cluster;
    c.nodes = 4;
    c.gpu.peaks[Dtype::bf16] = FlopsPerSecond(1e14);
    c.gpu.sms = 108;
    c.host = no_host_costs();
    c.host.call = Seconds(pick({0, 0, 5e-6}));
    c.interference.compute_slowdown = pick({0.1, 0.25, 0.6});
    c.interference.communication_slowdown = pick({0, 0, 0.2});
    c.interference.shared_links = random() % 2 == 0;
    c.intra.bandwidth = pick({0.2, 1, 3}) * c.intra.bandwidth;
    c.inter.bandwidth = pick({0.2, 1, 5}) * c.inter.bandwidth;
    e.parallelism = {};
    e.parallelism.global_batch = 32;
    e.runtime.gradients.bucket = BucketSize(Bytes(pick({1e6, 25e6, 1e9})));
    e.parallelism.recompute_layers = static_cast<int>(pick({0, 0, 1}));
    return e;
}

}  // namespace

// Slowdown 0.5. The exchange of 3 s costs the gemm of 4 s beside it 1 s: 2 + 5 + 1, as in the
// engine. 2 s of the gemm's work run without the exchange. An exchange of 9 s outlasts the gemm: 2
// + 9 + 1, and no part of the gemm runs alone.
TEST_CASE("a plan takes no less than its kernels and what they lose beside its exchanges") {
    const TaskGraph plan = forked_plan();
    const Costs costs = free_issue({2_s, 3_s, 4_s, 1_s});
    const LeastTimes least = least_times(plan, costs, 0.5);
    CHECK(least.all == Approx(8));
    CHECK(least.alone == Approx(2 + 2 + 1));
    Timeline timeline;
    run_with_contention(plan, costs, {0.5, 0}, timeline);
    CHECK(timeline.end.si() == Approx(8));
    const LeastTimes exchange_bound = least_times(plan, free_issue({2_s, 9_s, 4_s, 1_s}), 0.5);
    CHECK(exchange_bound.all == Approx(12));
    CHECK(exchange_bound.alone == Approx(3));
}

// Slowdown 0.5. The host waits for the first gemm (2 s) and reads for 1 s; only then it issues the
// exchange of 3 s and the gemm of 4 s beside it: 2 + 1 + 4 + 3 / 3, as in the engine. All of the
// first gemm and 2 s of the other run alone.
TEST_CASE("a host that waits for the device is one more task that all others of a plan pass") {
    TaskGraph plan;
    const TaskId first = plan.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    const TaskId read = plan.add("read", Phase::forward, HostWork{HostWork::Kind::read, 1},
                                 {Place{0, Lane::host}}, {first});
    plan.add("sum", Phase::forward, AllReduce{1024_B}, {collective(0)}, {read});
    plan.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {read});
    const Costs costs = free_issue({2_s, 1_s, 3_s, 4_s});
    const LeastTimes least = least_times(plan, costs, 0.5);
    CHECK(least.all == Approx(8));
    CHECK(least.alone == Approx(2 + 2));
    Timeline timeline;
    run_with_contention(plan, costs, {0.5, 0}, timeline);
    CHECK(timeline.end.si() == Approx(8));
}

// The last pass does not wait for the exchange, which may then run beside anything, so only the
// order of tasks counts.
TEST_CASE(
    "a plan that everything does not pass is no less than in order, and nothing of it counts as "
    "alone") {
    TaskGraph plan;
    const TaskId first = plan.add("gemm", Phase::forward, small_gemm(), {compute(0)}, {});
    plan.add("sum", Phase::forward, AllReduce{1024_B}, {collective(0)}, {first});
    plan.add("pass", Phase::forward, small_pass(), {compute(0)}, {first});
    const TaskId other = plan.add("gather", Phase::forward, AllGather{1024_B}, {collective(0)}, {});
    plan.add("pass", Phase::forward, small_pass(), {compute(0)}, {other});
    const LeastTimes least = least_times(plan, free_issue({2_s, 3_s, 1_s, 1_s, 1_s}), 0.5);
    CHECK(least.all == Approx(2 + 3 + 1 + 1));
    CHECK(least.alone == 0);
}

namespace {

// A dense layer takes 3 forward, 0.1 of it beside its own exchanges, and 7 backward, 0.2 beside
// them; an embedding takes 1, 0.05 beside, and a head 4. Four layers in chunks of two; slowdown
// 0.25, so kernels lose a fifth of a collective. The shortest layer, slowed throughout, takes 3 +
// 0.25 x 2.9 = 3.725.
FeatureTimes by_unit(double dense_forward_s, double dense_backward_s, double embedding_forward_s) {
    FeatureTimes f{};
    f[feature::unit(UnitKind::dense, Pass::forward)] = dense_forward_s;
    f[feature::unit(UnitKind::dense, Pass::backward)] = dense_backward_s;
    f[feature::unit(UnitKind::embedding, Pass::forward)] = embedding_forward_s;
    f[feature::unit(UnitKind::embedding, Pass::backward)] = 1;
    f[feature::unit(UnitKind::head, Pass::forward)] =
        f[feature::unit(UnitKind::head, Pass::backward)] = 4;
    return f;
}
const FeatureTimes dense_lower = by_unit(3, 7, 1), dense_alone = by_unit(2.9, 6.8, 0.95);

LeastInputs dense_layers(Schedule schedule = Schedule::one_f_one_b, int chunk_layers = 2) {
    return {dense_lower, dense_alone, schedule, false, {4, 0, 1, 1}, chunk_layers, 1, 0.25};
}

DataTimes collectives_of(double filled, double flushed) {
    DataTimes data;
    data.filled = {filled, 1, 1, 1};
    data.flushed = {flushed, 1, 2, 1};
    data.gathered = {2, 0, 0.5, 1.9};
    data.exchanged = {4, 0, 3, 9};
    return data;
}

constexpr std::size_t dense_forward = feature::unit(UnitKind::dense, Pass::forward),
                      dense_backward = feature::unit(UnitKind::dense, Pass::backward);

}  // namespace

// 5 s of gradients beside the next layer: it loses a fifth of the 4.8 s that are not beside its own
// exchanges. With 10 s it loses at most a quarter of its kernels' 6.8 s. The first layer of the
// next slot loses a fifth of 3.725, less its own 0.1 and the 0.2 and 0.05 that other units'
// exchanges may take.
TEST_CASE("gradients beside the last backward lengthen a layer in it and the first after it") {
    const LeastCollectives least(dense_layers());
    Parallelism p;
    Exchanges x;
    x.gradients = GradientOverlap::never;
    CHECK(least.features({p, x}, collectives_of(5, 9)) == dense_lower);
    x.gradients = GradientOverlap::always;
    const double next = 0.2 * (3.725 - 0.1 - 0.2 - 0.05);
    FeatureTimes f = least.features({p, x}, collectives_of(5, 9));
    CHECK(f[feature::inside_last] == Approx(0.2 * 4.8));
    CHECK(f[feature::after_last] == Approx(next));
    CHECK(f[dense_backward] == 7);
    f = least.features({p, x}, collectives_of(10, 2));
    CHECK(f[feature::inside_last] == Approx(0.25 * 6.8));
    CHECK(f[feature::after_last] == Approx(0.2 * (2 * (1 - 0.1 / 3.725) - 0.25)));
    CHECK(least.features({p, x}, collectives_of(0.2, 0.1))[feature::inside_last] == 0);
    CHECK(least.features({p, x}, collectives_of(0.2, 0.1))[feature::after_last] == 0);
    // zero 2: the loss occurs in every backward; after the embedding's backward no such layer
    // follows
    p.zero = 2;
    f = least.features({p, x}, collectives_of(5, 9));
    CHECK(f[dense_backward] == Approx(7 + 0.96));
    CHECK(f[dense_forward] == 3);
    CHECK(f[feature::filling] == Approx(-0.96));
    CHECK(f[feature::filling_single] == Approx(-0.96));
    CHECK(f[feature::filled] == Approx(next));
    CHECK(f[feature::filled_single] == Approx(next));
    CHECK(f[feature::unit(UnitKind::embedding, Pass::backward)] == Approx(1 - next));
    CHECK(f[feature::inside_last] == 0);
}

// A gather of 2 and a scatter of 4 beside a backward: a fifth of 5.8. A gather alone: a fifth
// of 1.9 forward and of 1.8 backward, of which the smaller counts between slots. Embedding and head
// gather or exchange less than a layer, and the difference is subtracted from them.
TEST_CASE("under zero 3 layers are longer by what is gathered and scattered beside them") {
    Parallelism p;
    Exchanges x;
    p.zero = 3;
    const DataTimes data = collectives_of(5, 9);
    FeatureTimes f = LeastCollectives(dense_layers()).features({p, x}, data);
    CHECK(f[dense_backward] == Approx(7 + 1.16));
    CHECK(f[dense_forward] == Approx(3 + 0.36));
    CHECK(f[feature::filling] == Approx(-2.32));
    CHECK(f[feature::filling_single] == Approx(-1.16));
    CHECK(f[feature::opened] == Approx(0.72));
    CHECK(f[feature::filled] == Approx(0.36 + 6));
    CHECK(f[feature::filled_single] == Approx(0.36 + 6));
    CHECK(f[feature::unit(UnitKind::embedding, Pass::forward)] == Approx(1 - 1.5));
    CHECK(f[feature::unit(UnitKind::head, Pass::forward)] == Approx(4 - 0.36));
    CHECK(f[feature::unit(UnitKind::head, Pass::backward)] == Approx(4 - 0.36));
    CHECK(f[feature::unit(UnitKind::embedding, Pass::backward)] == Approx(1 - 1));
    f = LeastCollectives(dense_layers(Schedule::one_f_one_b, 1)).features({p, x}, data);
    CHECK(f[dense_forward] == 3);
    CHECK(f[feature::unit(UnitKind::head, Pass::backward)] == Approx(4 - 0.1));
    x.gradients = GradientOverlap::never;
    f = LeastCollectives(dense_layers()).features({p, x}, data);
    CHECK(f[dense_backward] == Approx(7 + 0.36));
    CHECK(f[feature::filled] == Approx(0.36));
    CHECK(LeastCollectives(dense_layers(Schedule::zb_h1)).features({p, x}, data) == dense_lower);
}

// The first layer waits for 0.5 and 2 s of parameters, less the embedding's 1 s: 1.5. With zero 1
// the gathers go on for 12 s, four layers' forwards. From 2.5 s on, slots of two layers (7.45, with
// 0.2 beside their own exchanges) and the 1.05 between them lose a fifth of what is not beside
// those exchanges.
TEST_CASE(
    "a path that begins with the first slot waits for its parameters and is slowed by the others") {
    const LeastCollectives least(dense_layers());
    const DataTimes data = collectives_of(5, 9);
    Parallelism p;
    Exchanges x;
    p.zero = 3;
    CHECK(least.start(p, data, 50) == Approx(1.5));
    p.zero = 1;
    const double kept = 1 - (0.2 + 1.05) / 8.5;
    CHECK(least.start(p, data, 50) == Approx(1.5 + 0.2 * (9.5 * kept - 0.4 - 1.05)));
    CHECK(least.start(p, data, 8) == Approx(1.5 + 0.2 * (5.5 * kept - 0.4 - 1.05)));
    DataTimes large = data;
    // the last of two layers waits: 12.5 less the embedding's and a layer's forward
    large.gathered[0] = 6;
    CHECK(least.start(p, large, 50) == Approx(12.5 - 1 - 3));
}

// Recomputed layers take 3 more backward, 2.9 of it alone: 10 in all, 9.7 alone and 0.3 beside
// their own exchanges. Where only some layers are recomputed, the least layer takes 7 and has 6.8
// alone. The gathers before the first forward meet no recomputed layer: 12 s of forwards, slots
// of 7.45 with at most 0.3 beside.
TEST_CASE("layers that are computed again last longer and have more beside them") {
    FeatureTimes lower = dense_lower, alone = dense_alone;
    lower[feature::again(UnitKind::dense)] = 3;
    alone[feature::again(UnitKind::dense)] = 2.9;
    const DataTimes large = collectives_of(100, 9), small = collectives_of(5, 9);
    Parallelism p;
    Exchanges x;
    x.gradients = GradientOverlap::always;
    for (const bool some : {false, true}) {
        LeastInputs in{lower, alone, Schedule::one_f_one_b, some, {4, 0, 1, 1}, 2, 1, 0.25};
        p.zero = 0;
        CHECK(LeastCollectives(in).features({p, x}, small)[feature::inside_last] ==
              Approx(0.2 * (5 - 0.3)));
        CHECK(LeastCollectives(in).features({p, x}, large)[feature::inside_last] ==
              Approx(0.25 * (some ? 6.8 : 9.7)));
        p.zero = 3;  // gathering and scattering (6 s, 2 s forward) takes no longer than a layer
        CHECK(LeastCollectives(in).features({p, x}, small)[dense_backward] ==
              Approx(7 + 0.2 * (6 - 0.3)));
        DataTimes more = small;
        more.exchanged[0] = 18;  // 20 s outlast its 10
        CHECK(LeastCollectives(in).features({p, x}, more)[dense_backward] == Approx(7 + 20 - 10));
        p.zero = 1;
        const double kept = 1 - (0.2 + 1.05) / 8.5;
        if (!some)
            CHECK(LeastCollectives(in).start(p, small, 50) ==
                  Approx(1.5 + 0.2 * (9.5 * kept - 2 * 0.3 - 1.05)));
    }
}

TEST_CASE("no step is below its bound, whatever links, buckets, hosts and slowdowns are") {
    std::mt19937_64 random(5);
    double tightness = 0;
    for (int machine = 0; machine < 24; ++machine) {
        CAPTURE(machine);
        const Experiment base = random_machine(random);
        StepBounds bounds(base);
        std::vector<ParallelPlan> picked(100);
        std::uint64_t met = 0;
        for_each_split(base, [&](const ParallelPlan& p) {
            const std::uint64_t at = ++met <= picked.size() ? met - 1 : random() % met;
            if (at < picked.size()) picked[at] = p;
        });
        REQUIRE(met >= picked.size());
        int below = 0;
        for (const ParallelPlan& p : picked) {
            Experiment e = base;
            set_plan(e, p);
            const TaskGraph graph = build_step(e, routing_of(e));
            Timeline timeline;
            run(graph, price(graph, e.cluster), e.cluster.interference, timeline);
            const StepBound bound = bounds(p);
            tightness += bound.lower / timeline.end;
            below += bound.lower <= timeline.end * (1 + 1e-9) && bound.lower <= bound.estimate;
        }
        CHECK(below == 100);
    }
    CHECK(tightness / 2400 >= 0.96311);  // as measured, rounded to the worse side
}
