#include "sim/bounds/least.h"

#include <catch2/catch.hpp>

#include <random>

#include "model/step.h"
#include "sim/bounds/bounds.h"
#include "tests/graphs.h"
#include "tests/split_space.h"
#include "tests/transformers.h"

using namespace stepcast;
using namespace stepcast::graphs;
using namespace stepcast::literals;

namespace {

Costs free_issue(std::vector<Seconds> durations) {
    const std::size_t tasks = durations.size();
    return {std::move(durations), std::vector<Seconds>(tasks)};
}

// A gemm, then an exchange beside another, then a pass that waits for both.
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
    const auto pick = [&](std::initializer_list<double> values) { return values.begin()[random() % values.size()]; };
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
    e.parallelism.bucket = Bytes(pick({1e6, 25e6, 1e9}));
    e.parallelism.recompute_layers = static_cast<int>(pick({0, 0, 1}));
    return e;
}

}  // namespace

// Slowdown 0.5. The exchange of 3 s takes 1 s from the gemm beside it, 4 s: 2 + 5 + 1, as the engine has it. The gemm
// runs 2 s of its work by itself. An exchange of 9 s outlasts it: 2 + 9 + 1, and nothing of it is alone.
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

// The last pass leaves the exchange out: it may run beside anything, so only the order of tasks counts.
TEST_CASE("a plan that everything does not pass is no less than in order, and nothing of it counts as alone") {
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

TEST_CASE("no step is below its bound, whatever links, buckets, hosts and slowdowns are") {
    std::mt19937_64 random(5);
    double tightness = 0;
    for (int machine = 0; machine < 24; ++machine) {
        CAPTURE(machine);
        const Experiment base = random_machine(random);
        StepBounds bounds(base);
        std::vector<Parallelism> picked(100);
        std::uint64_t met = 0;
        for_each_split(base, [&](const Parallelism& p) {
            const std::uint64_t at = ++met <= picked.size() ? met - 1 : random() % met;
            if (at < picked.size()) picked[at] = p;
        });
        REQUIRE(met >= picked.size());
        int below = 0;
        for (const Parallelism& p : picked) {
            Experiment e = base;
            e.parallelism = p;
            const TaskGraph graph = build_step(e, routing_of(e));
            Timeline timeline;
            run(graph, price(graph, e.cluster), e.cluster.interference, timeline);
            const StepBound bound = bounds(p);
            tightness += bound.lower / timeline.end;
            below += bound.lower <= timeline.end * (1 + 1e-9) && bound.lower <= bound.estimate;
        }
        CHECK(below == 100);
    }
    CHECK(tightness / 2400 >= 0.97235);  // as measured, rounded to the worse side
}
