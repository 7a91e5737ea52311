#include "sim/sweep/search.h"

#include <catch2/catch.hpp>

#include "sim/sweep/point_evaluator.h"
#include "tests/split_space.h"
#include "tests/transformers.h"

using namespace stepcast;

// One stage sends nothing, one tensor-parallel rank exchanges nothing inside a layer, and zero 0
// gathers no parameters; but eight replicas do exchange gradients. Two stages of four ranks do
// send.
TEST_CASE("a switch is idle where what it overlaps has no partner") {
    Experiment e = small_gpt();
    e.cluster.nodes = 2;
    Parallelism& p = e.parallelism;
    p = {};
    p.dp = 8;
    p.global_batch = 16;
    Exchanges& x = e.runtime.exchanges;
    x = {};
    const ParallelPlan plain = plan_of(e);
    x.sends = x.scatter_sends = x.parameters = x.weight_gradient = false;
    x.tensor = TensorOverlap::always;
    CHECK(without_idle_switches(e) == plain);
    x.gradients = GradientOverlap::never;
    CHECK(without_idle_switches(e).exchanges.gradients == GradientOverlap::never);
    p.zero = 1;
    CHECK_FALSE(without_idle_switches(e).exchanges.parameters);
    p.dp = 4;
    p.pp = 2;
    CHECK_FALSE(without_idle_switches(e).exchanges.sends);
    p.dp = 1;
    p.tp = 4;
    CHECK(without_idle_switches(e).exchanges.gradients == GradientOverlap::always);
    CHECK_FALSE(without_idle_switches(e).exchanges.scatter_sends);
    CHECK(without_idle_switches(e).exchanges.tensor == TensorOverlap::always);
    p.sequence_parallel = true;
    CHECK(without_idle_switches(e).exchanges.scatter_sends);
}

// With experts that tensor-parallel ranks hold whole, a single replica of the model contains two
// replicas of each expert.
TEST_CASE("splits that differ in idle switches have the same step, bound and peak") {
    for (Experiment base : {small_gpt(), small_moe()}) {
        base.cluster.nodes = 2;
        base.parallelism = {};
        base.parallelism.global_batch = 16;
        int i = 0, differ = 0;
        for_each_split(base, [&](const ParallelPlan& p) {
            if (i++ % 211 != 0) return;
            Experiment e = base;
            for (const int bits : {0, 7, 9, 14}) {
                set_plan(e, p);
                e.runtime.exchanges.gradients =
                    bits & 1 ? GradientOverlap::always : GradientOverlap::never;
                e.runtime.exchanges.parameters = bits & 2;
                e.runtime.exchanges.sends = bits & 4;
                e.runtime.exchanges.scatter_sends = bits & 8;
                Experiment plain = e;
                set_plan(plain, without_idle_switches(e));
                if (plan_of(plain) == plan_of(e)) continue;
                ++differ;
                REQUIRE(simulated_step(plain) == simulated_step(e));
                StepBounds bounds(base);
                REQUIRE(bounds(plan_of(plain)) == bounds(plan_of(e)));
            }
        });
        CHECK(differ > 20);
    }
}
