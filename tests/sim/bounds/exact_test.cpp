// Where no task overlaps another, a step is a sum, and the closed forms give it to the last digits.
#include <catch2/catch.hpp>

#include "sim/bounds/bounds.h"
#include "sim/predict.h"
#include "tests/sim/drawn_experiments.h"

using namespace stepcast;

namespace {

// One stage, one collective per unit after the backward, hosts that cost nothing, no slowdown,
// ranks that all do the same.
Experiment one_after_the_other(Experiment e) {
    Parallelism& p = e.parallelism;
    const int ranks = rank_count(e.cluster), batches = micro_batches(p);
    p.pp = p.vp = p.cp = p.ep = 1;
    p.dp = ranks / p.tp;
    p.schedule = Schedule::one_f_one_b;
    p.stage_layers.clear();
    Exchanges& x = e.runtime.exchanges;
    x.tensor = TensorOverlap::never;
    x.gradients = GradientOverlap::never;
    x.weight_gradient = x.parameters = false;
    p.zero = std::min(p.zero, 2);
    p.shard = 0;
    p.recompute_layers = 0;
    e.runtime.gradients.bucket = BucketSize(Bytes(1));  // every unit closes its own bucket
    e.runtime.gradients.pieces = 1 + micro_batches(p) % 3;
    p.global_batch = p.dp * p.micro_batch * batches;
    e.workload.moe = {};
    e.cluster.host = no_host_costs();
    e.cluster.interference = {};
    e.cluster.launch_blocking = false;
    e.cluster.noise = {};
    return e;
}

}  // namespace

TEST_CASE("where nothing overlaps bound, estimate and step are one number") {
    int seen = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        std::string taken;
        const Experiment e = one_after_the_other(drawn_experiments::draw(seed, taken));
        if (!StepBounds::cover(e)) continue;
        try {
            check_experiment(e);
        } catch (const ConfigError&) {
            continue;
        }
        const StepBound bound = StepBounds(e)(plan_of(e));
        const double step = predict(e).step.p50.si();
        CAPTURE(seed, taken, e.parallelism.zero, e.parallelism.dp, micro_batches(e.parallelism),
                to_string(e.parallelism.recompute));
        ++seen;
        CHECK(bound.lower.si() == Approx(step).epsilon(1e-9));
        CHECK(bound.estimate.si() == Approx(step).epsilon(1e-9));
    }
    CHECK(seen > 100);
}
