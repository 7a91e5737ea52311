#include <cmath>
#include <numeric>
#include <random>

#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/step.h"
#include "sim/bounds/bounds.h"
#include "sim/engine/simulate.h"
#include "sim/memory/transformer_memory.h"
#include "tests/simulated.h"
#include "tests/split_space.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

struct Against {
    // lower bounds not above the engine's step; estimates within 3 %
    int samples = 0, below = 0, within = 0;
    double worst = 0, sum = 0;
    int exact = 0;         // estimates that are the engine's step but for rounding
    double tightness = 0;  // sum of lower bounds over steps
};

// Compares `count` random splits of the space with the engine, among those that fit and whose graph
// is not huge.
Against against_engine(const Experiment& base, std::size_t count, double most_layer_passes,
                       std::uint64_t seed = 7) {
    std::mt19937_64 random(seed);
    StepBounds bounds(base);
    std::vector<ParallelPlan> picked;
    std::uint64_t met = 0;
    for_each_split(base, [&](const ParallelPlan& p) {
        if (static_cast<double>(micro_batches(p.parallelism)) * base.workload.layers >
                most_layer_passes ||
            !bounds(p).fits)
            return;
        const std::uint64_t at = ++met <= count ? met - 1 : random() % met;
        if (picked.size() < count)
            picked.push_back(p);
        else if (at < count)
            picked[static_cast<std::size_t>(at)] = p;
    });
    Against result;
    for (const ParallelPlan& p : picked) {
        Experiment e = base;
        set_plan(e, p);
        if (!is_legal(e)) continue;
        const StepBound bound = bounds(p);
        const Seconds step = engine_step(e);
        const double error = std::abs(bound.estimate / step - 1);
        ++result.samples;
        result.below += bound.lower <= step * (1 + 1e-9) && bound.lower <= bound.estimate;
        result.within += error <= 0.03;
        result.worst = std::max(result.worst, error);
        result.sum += error;
        result.exact += error <= 1e-9;
        result.tightness += bound.lower / step;
    }
    return result;
}

// Eight layers, wide enough that kernels take longer than the host's calls, on four nodes of four.
Experiment middle_gpt() {
    Experiment e = small_gpt();
    e.workload.layers = 8;
    e.workload.hidden = 1024;
    e.workload.heads = 16;
    e.workload.ffn = 4096;
    e.workload.seq = 512;
    e.cluster.nodes = 4;
    e.cluster.gpu.peaks[Dtype::fp32] = FlopsPerSecond(2e13);
    e.cluster.gpu.peaks[Dtype::bf16] = e.cluster.gpu.peaks[Dtype::fp16] = FlopsPerSecond(1e14);
    e.cluster.gpu.sms = 108;
    e.cluster.host = no_host_costs();
    e.parallelism = {};
    e.parallelism.global_batch = 64;
    return e;
}

}  // namespace

// The tasks of one rank run one after the other, so bound, estimate and engine agree.
TEST_CASE("on one rank without hosts the bound, the estimate and the engine are equal") {
    Experiment e = small_gpt();
    e.cluster.host = no_host_costs();
    e.cluster.gpus_per_node = 1;
    e.parallelism.global_batch = 3;
    StepBounds bounds(e);
    const StepBound bound = bounds(plan_of(e));
    const Seconds step = engine_step(e);
    CHECK(bound.lower.si() == Approx(step.si()).epsilon(1e-12));
    CHECK(bound.estimate.si() == Approx(step.si()).epsilon(1e-12));
}

// 1F1B of p equal stages without transfers takes (m + p - 1)(F + B) and what follows the slots.
TEST_CASE("the longest path of 1F1B is (m + p - 1)(F + B), however many micro-batches there are") {
    Experiment e = middle_gpt();
    e.cluster.nodes = 1;
    e.parallelism.pp = 4;
    StepBounds bounds(e);
    for (const int m : {3, 16, 17, 64, 200}) {
        e.parallelism.global_batch = m;
        CHECK(bounds(plan_of(e)).estimate / engine_step(e) == Approx(1).epsilon(0.01));
        CHECK(bounds(plan_of(e)).lower <= engine_step(e) * (1 + 1e-9));
    }
}

// The gradient of a table of 40,000 x 1024 fp32 weights takes as long as several micro-batches on a
// slow link. Only the two stages that hold the table or its copy wait for it.
TEST_CASE("tied embeddings on two stages are joined behind the slots of both") {
    Experiment e = middle_gpt();
    e.cluster.nodes = 1;
    e.cluster.intra.bandwidth = BytesPerSecond(5e9);
    e.workload.vocab = 40'000;
    e.workload.tied = true;
    e.parallelism.pp = 4;
    for (const int m : {4, 16}) {
        e.parallelism.global_batch = m;
        StepBounds bounds(e);
        Experiment apart = e;
        apart.workload.tied = false;
        const Seconds step = engine_step(e);
        CHECK(step > 1.05 * engine_step(apart));
        CHECK(bounds(plan_of(e)).estimate / step == Approx(1).epsilon(0.01));
        CHECK(bounds(plan_of(e)).lower <= step * (1 + 1e-9));
    }
}

// On one stage the chain is all that is computed, and gradients that wait for the backward's end,
// the norm and the update follow it: nothing is left for a search to find. 16 ranks sum fp32
// gradients of 3.2 million weights a layer, eight times, over 10 GB/s.
TEST_CASE("data parallelism behind a chain needs no search") {
    Experiment e = middle_gpt();
    e.cluster.gpu.memory = Bytes(0);
    e.parallelism.dp = 16;
    e.runtime.exchanges.gradients = GradientOverlap::never;
    e.runtime.exchanges.parameters = false;
    StepBounds bounds(e);
    for (const int zero : {0, 1}) {
        e.parallelism.zero = zero;
        const Seconds chain = bounds.coarse(plan_of(e)).lower, with_data = bounds.with_data().lower,
                      all = bounds.refined().lower;
        CHECK(chain.si() < 0.8 * all.si());
        CHECK(with_data.si() == Approx(all.si()).epsilon(1e-9));
        CHECK(all <= engine_step(e));
    }
}

TEST_CASE("the memory of closed forms is that of transformer_memory, the verdict too") {
    Experiment base = middle_gpt();
    base.cluster.gpu.memory = Bytes(2e9);
    StepBounds bounds(base);
    int i = 0, fitting = 0, seen = 0;
    for_each_split(base, [&](ParallelPlan p) {
        if (i++ % 97 != 0) return;
        p.parallelism.recompute_layers = i % 2;
        Experiment e = base;
        set_plan(e, p);
        const MemoryUse use = transformer_memory(e);
        const StepBound bound = bounds(p);
        REQUIRE(bound.peak.si() == Approx(use.peak.si()).epsilon(1e-12));
        REQUIRE(bound.fits == use.fits);
        REQUIRE((bound.lower > Seconds(0)) == bound.fits);  // no times of what does not fit
        fitting += bound.fits;
        ++seen;
    });
    CHECK(seen > 100);
    CHECK((fitting > 0 && fitting < seen));
}

// The expected closeness was measured with this test and rounded to the worse side, so any change
// for the worse fails. The splits that are furthest off are pipelines under zero 3: what they
// gather before some passes and not before others is estimated as a share of each, and bounded by
// nothing.
TEST_CASE(
    "no step is below its bound, and most estimates are within 3 %, with and without contention") {
    struct Reached {
        // slowdown of kernels beside communication; host seconds per kernel
        double slowdown, call;
        int exact, within;  // of 200 splits
        double mean, worst, tightness;
    };
    for (const Reached& reached : {Reached{0, 0, 53, 176, 0.01067, 0.1149, 0.95975},
                                   {0.25, 0, 5, 177, 0.01246, 0.1098, 0.9499},
                                   {0, 5e-5, 0, 57, 0.08347, 0.2789, 0.91007}}) {
        Experiment base = middle_gpt();
        base.cluster.interference.compute_slowdown = reached.slowdown;
        base.cluster.host.call = Seconds(reached.call);
        const Against result = against_engine(base, 200, 2000);
        CAPTURE(reached.slowdown, result.exact, result.within, result.sum / 200, result.worst,
                result.tightness / 200);
        CHECK(result.samples == 200);
        CHECK(result.below == result.samples);
        CHECK(result.exact >= reached.exact);
        CHECK(result.within >= reached.within);
        CHECK(result.sum / result.samples <= reached.mean);
        CHECK(result.worst <= reached.worst);
        CHECK(result.tightness / result.samples >= reached.tightness);
    }
}

TEST_CASE("no step of a model with experts is below its bound") {
    Experiment base = middle_gpt();
    base.workload.moe.experts = 8;
    base.workload.moe.top_k = 2;
    base.workload.moe.dense_layers = 1;
    base.parallelism.global_batch = 32;
    const Against result = against_engine(base, 60, 1000);
    CAPTURE(result.within, result.worst, result.exact, result.sum / result.samples,
            result.tightness / result.samples);
    CHECK(result.below == result.samples);
    CHECK(result.exact >= 4);
    CHECK(result.within >= 50);
    CHECK(result.sum / result.samples <= 0.0142);
    CHECK(result.tightness / result.samples >= 0.9232);
}

// The host reads how many tokens come, in each expert layer, and does own work for each.
static Experiment waiting_hosts(double call, double layer, TokenDispatch dispatch) {
    Experiment e = middle_gpt();
    e.workload.moe.experts = 8;
    e.workload.moe.top_k = 2;
    e.workload.moe.dense_layers = 1;
    e.parallelism.global_batch = 32;
    e.cluster.host.call = Seconds(call);
    e.cluster.host.read = Seconds(2e-5);
    e.cluster.host.exchange_setup = e.cluster.host.expert_layer = Seconds(layer);
    e.runtime.experts.dispatch = dispatch;
    return e;
}

// Interleaved pipelines, dualpipe and no pipeline, with collectives that take little and much of
// the step, and hosts that wait. Exchanges of gradients beside these passes are in no bound, nor
// that few micro-batches fill a pipeline without turns.
TEST_CASE("no step whose passes go by turns is below its bound") {
    struct Reached {
        double link, slowdown;  // of all links; of kernels beside communication
        double call, layer;     // host seconds per kernel, and per expert layer
        double tightness;
    };
    for (const Reached& reached : {Reached{1, 0, 0, 0, 0.847},
                                   {1, 0.25, 0, 0, 0.843},
                                   {0.1, 0.25, 0, 0, 0.823},
                                   {1, 0.25, 2e-5, 0, 0.863},
                                   {1, 0.25, 2e-6, 1e-3, 0.84},
                                   {1, 0.25, 2e-6, 5e-3, 0.848}}) {
        Experiment base = waiting_hosts(reached.call, reached.layer, TokenDispatch::all_to_all);
        if (reached.layer == 0) base.cluster.host.read = Seconds(0);
        base.workload.moe.dense_layers = 0;
        base.parallelism.overlap_experts = true;
        base.cluster.intra.bandwidth *= reached.link;
        base.cluster.inter.bandwidth *= reached.link;
        base.cluster.interference.compute_slowdown = reached.slowdown;
        const Against result = against_engine(base, 60, 1000);
        CAPTURE(reached.link, reached.slowdown, reached.call, reached.layer,
                result.tightness / result.samples);
        CHECK(result.samples == 50);  // the others have zero = 3
        CHECK(result.below == result.samples);
        CHECK(result.tightness / result.samples >= reached.tightness);
    }
}

// Both stages have five layers, one before four: while one goes through pairs of four, the other
// waits for it behind pairs of one. No stage alone knows (0.77 of the step).
TEST_CASE("bounds of passes that go by turns go through all stages, in every round") {
    Experiment e = waiting_hosts(2e-6, 1e-3, TokenDispatch::all_to_all);
    e.workload.moe.dense_layers = 0;
    e.workload.layers = 10;
    e.cluster.interference.compute_slowdown = 0;
    e.parallelism.overlap_experts = true;
    e.parallelism.pp = e.parallelism.vp = 2;
    e.parallelism.stage_layers = {1, 1, 4, 4};
    e.parallelism.dp = e.parallelism.ep = 8;
    for (const int micro_batches : {8, 64}) {
        e.parallelism.global_batch = 8 * micro_batches;
        StepBounds bounds(e);
        const double tightness = bounds(plan_of(e)).lower / engine_step(e);
        CAPTURE(micro_batches);
        CHECK(tightness <= 1 + 1e-9);
        CHECK(tightness >= 0.99);
    }
}

// What a slow host adds to unequal pairs, to equal ones one behind another, and to a forward beside
// a backward without layers. Without a layer alone 0.88, without the edges behind it 0.89 and 0.88,
// without that behind equal pairs 0.80, without the first layer of a forward 0.84 of the step.
TEST_CASE("bounds of passes that go by turns know what a slow host adds to each pair") {
    struct Reached {
        std::vector<int> layers;
        double call, tightness;  // host seconds per kernel
    };
    for (const Reached& reached : {Reached{{2, 2, 2, 2, 3, 3, 3, 3}, 5e-5, 0.905},
                                   {{1, 1, 1, 1}, 5e-5, 0.867},
                                   {{2, 2, 2, 2, 2, 0}, 2e-5, 0.855}}) {
        Experiment e = waiting_hosts(reached.call, 0, TokenDispatch::all_to_all);
        e.workload.moe.dense_layers = 0;
        e.workload.vocab = 65536;
        e.workload.layers = std::accumulate(reached.layers.begin(), reached.layers.end(), 0);
        e.cluster.interference.compute_slowdown = 0;
        e.parallelism.overlap_experts = true;
        e.parallelism.pp = 2;
        e.parallelism.vp = static_cast<int>(reached.layers.size()) / 2;
        e.parallelism.stage_layers = reached.layers;
        e.parallelism.dp = e.parallelism.ep = 8;
        e.parallelism.global_batch = 256;
        StepBounds bounds(e);
        const double tightness = bounds(plan_of(e)).lower / engine_step(e);
        CAPTURE(reached.layers);
        CHECK(tightness <= 1 + 1e-9);
        CHECK(tightness >= reached.tightness);
    }
}

TEST_CASE("no step whose host waits in every expert layer is below its bound") {
    struct Reached {
        double call, layer;  // host seconds per kernel, and per expert layer
        TokenDispatch dispatch;
        double tightness;
    };
    for (const Reached& reached : {Reached{5e-6, 0, TokenDispatch::all_to_all, 0.8986},
                                   {2e-6, 1e-3, TokenDispatch::once, 0.9069},
                                   {2e-6, 5e-3, TokenDispatch::once, 0.9139},
                                   {2e-5, 2e-2, TokenDispatch::once_dropless, 0.9216}}) {
        const Experiment base = waiting_hosts(reached.call, reached.layer, reached.dispatch);
        const Against result = against_engine(base, 100, 1000);
        CAPTURE(reached.layer, result.within, result.worst, result.tightness / result.samples);
        CHECK(result.samples == 100);
        CHECK(result.below == result.samples);
        CHECK(result.tightness / result.samples >= reached.tightness);
    }
}

// Steps that are long for one reason each: collectives, kernels beside them, and waits of the host
// for the device. Without the one or the other the bounds are 0.49, 0.98 and 0.69 of the step.
TEST_CASE("bounds of passes that go by turns know why a step is long") {
    struct Reached {
        double link, slowdown, layer;
        double tightness;
    };
    for (const Reached& reached :
         {Reached{0.01, 0, 0, 0.989}, {10, 0.5, 0, 0.995}, {10, 0, 5e-3, 0.75}}) {
        Experiment e = waiting_hosts(0, reached.layer, TokenDispatch::all_to_all);
        e.workload.moe.dense_layers = 0;
        e.cluster.intra.bandwidth *= reached.link;
        e.cluster.inter.bandwidth *= reached.link;
        e.cluster.interference.compute_slowdown = reached.slowdown;
        e.parallelism.overlap_experts = true;
        e.parallelism.pp = e.parallelism.vp = 2;
        e.parallelism.dp = e.parallelism.ep = 8;
        e.parallelism.micro_batch = 4;
        e.parallelism.global_batch = 2048;
        StepBounds bounds(e);
        const double tightness = bounds(plan_of(e)).lower / engine_step(e);
        CAPTURE(reached.link, reached.slowdown, reached.layer);
        CHECK(tightness <= 1 + 1e-9);
        CHECK(tightness >= reached.tightness);
    }
}

// The device takes a forward in less time than the host, and a backward in more. Without what is
// lost behind a wait the bounds are 0.90, 0.88, 0.84 and 0.84 of the step.
TEST_CASE("bounds know what a device loses while its host goes on behind a wait") {
    struct Reached {
        Recompute recompute;
        int vp;
        double tightness;
    };
    for (const Reached& reached : {Reached{Recompute::none, 1, 0.965},
                                   {Recompute::none, 2, 0.935},
                                   {Recompute::full, 1, 0.95},
                                   {Recompute::full, 2, 0.90}}) {
        Experiment e = waiting_hosts(2e-6, 6e-4, TokenDispatch::once);
        e.workload.moe.dense_layers = 0;
        e.parallelism.pp = 4;
        e.parallelism.vp = reached.vp;
        e.parallelism.dp = e.parallelism.ep = 2;
        e.parallelism.recompute = reached.recompute;
        StepBounds bounds(e);
        const double tightness = bounds(plan_of(e)).lower / engine_step(e);
        CAPTURE(reached.vp, tightness);
        CHECK(tightness >= reached.tightness);
        CHECK(tightness <= 1 + 1e-9);
    }
}

TEST_CASE("no step with sparse attention is below its bound, and delta nets have none") {
    Experiment base = middle_gpt();
    Workload& w = base.workload;
    w.mla = {.q_rank = 256, .kv_rank = 128, .nope_dim = 64, .rope_dim = 32, .value_dim = 64};
    w.indexer = {.heads = 8, .head_dim = 64, .top_k = 128};
    base.parallelism.global_batch = 32;
    CHECK(StepBounds::cover(base));
    const Against result = against_engine(base, 40, 1000);
    CAPTURE(result.within, result.worst, result.tightness / result.samples);
    CHECK(result.samples == 40);
    CHECK(result.below == result.samples);
    w.indexer = {};
    w.mla = {};
    base.runtime.attention = AttentionKind::flash;
    w.delta = {.value_heads = 8, .key_heads = 4};
    CHECK_FALSE(StepBounds::cover(base));
}

TEST_CASE(
    "bounds depend on the split alone, not on what was asked before, and others answer alike") {
    const Experiment base = middle_gpt();
    const auto pipelines = std::make_shared<FoundPipelines>(base);
    StepBounds one(base, pipelines);
    std::vector<std::pair<ParallelPlan, StepBound>> asked;
    int i = 0;
    for_each_split(base, [&](const ParallelPlan& p) {
        if (i++ % 397 == 0) asked.emplace_back(p, one(p));
    });
    StepBounds other(base, pipelines);
    for (auto it = asked.rbegin(); it != asked.rend(); ++it)
        REQUIRE(other(it->first) == it->second);
}

// With data-parallel ranks innermost, tensor-parallel ranks are dp apart: on one node or on
// several, depending on dp and pp alone.
TEST_CASE(
    "bounds under another rank order are those that a split has by itself, whatever was asked "
    "before") {
    Experiment base = middle_gpt();
    for (const char* order : {"dp-tp-cp-pp", "pp-tp-cp-dp", "tp-cp-dp-pp"}) {
        base.parallelism.rank_order = order;
        StepBounds bounds(base);
        for (const int tp : {2, 4})
            for (const int pp : {1, 2, 4})
                for (const int dp : {1, 2, 4, 8}) {
                    if (tp * pp * dp > 16) continue;
                    ParallelPlan p = plan_of(base);
                    p.parallelism.tp = tp;
                    p.parallelism.pp = pp;
                    p.parallelism.dp = dp;
                    StepBounds fresh(base);
                    CAPTURE(order, tp, pp, dp);
                    CHECK(bounds(p) == fresh(p));
                }
    }
}

// The figures of notes/closed-forms.md; takes minutes.
TEST_CASE("2,000 splits of GPT-3 175B on 1,024 A100 against the engine", "[.][sample]") {
    Experiment base = read_experiment("gpt3_175b_a100");
    base.cluster.nodes = 128;
    base.parallelism = {};
    base.parallelism.global_batch = 1536;
    const Against result = against_engine(base, 2000, 25'000);
    WARN(result.within << " of " << result.samples << " within 3 %, mean "
                       << result.sum / result.samples << ", worst " << result.worst);
    CHECK(result.below == result.samples);
}

// Machines, hosts, layers and layouts drawn at random. Light layouts leave chunks without layers.
static Experiment random_experts(std::uint64_t seed, bool by_turns) {
    std::mt19937_64 random(seed);
    const auto one_of = [&](std::initializer_list<double> values) {
        return values.begin()[random() % values.size()];
    };
    const double call = one_of({0, 2e-6, 1e-5, 2e-5, 5e-5}), layer = one_of({0, 1e-4, 1e-3, 5e-3});
    Experiment e = waiting_hosts(
        call, layer, random() % 2 == 0 ? TokenDispatch::once : TokenDispatch::all_to_all);
    if (random() % 4 == 0) e.cluster.host.read = Seconds(0);
    e.workload.layers = 4 + static_cast<int>(random() % 10);
    e.workload.moe.dense_layers = std::max(0, static_cast<int>(random() % 6) - 3);
    e.workload.vocab = static_cast<int>(one_of({512, 4096, 65536}));
    e.cluster.intra.bandwidth *= one_of({1, 0.3, 0.1, 0.03});
    e.cluster.inter.bandwidth *= one_of({1, 0.3, 0.1, 0.03});
    e.cluster.interference.compute_slowdown = one_of({0, 0.1, 0.25, 0.6});
    e.parallelism.layout = static_cast<StageLayout>(random() % 4);
    e.parallelism.overlap_experts = by_turns;
    return e;
}

static void check_random(std::uint64_t seeds, std::size_t splits) {
    for (const bool by_turns : {false, true})
        for (std::uint64_t seed = 0; seed < seeds; ++seed) {
            const Against result =
                against_engine(random_experts(seed, by_turns), splits, 1000, seed);
            CAPTURE(by_turns, seed);
            CHECK(result.samples > 0);
            CHECK(result.below == result.samples);
        }
}

TEST_CASE("no step of random layouts and hosts is below its bound") { check_random(24, 30); }
TEST_CASE("100,000 splits of random layouts, experts and hosts against the engine", "[.][sample]") {
    check_random(1000, 60);
}

// Four stages of four layers, two ranks of data each, over a network on which a layer's weights
// take longer than its passes: the gathers decide, and the bound knows them. They are what the lane
// has to carry, so that the step is no shorter; with kernels slowed beside them it is longer still.
TEST_CASE("the bound of a pipeline under zero 3 counts what its stages gather") {
    Experiment e = middle_gpt();
    e.workload.layers = 16;
    e.parallelism.pp = 4;
    e.parallelism.dp = 4;
    e.parallelism.zero = 3;
    for (const double slowdown : {0.0, 0.5})
        for (const double bandwidth : {1.0, 0.1, 0.01}) {
            Experiment tried = e;
            tried.cluster.interference.compute_slowdown = slowdown;
            tried.cluster.intra.bandwidth *= bandwidth;
            tried.cluster.inter.bandwidth *= bandwidth;
            const StepBound bound = StepBounds(tried)(plan_of(tried));
            const Seconds step = engine_step(tried);
            CAPTURE(slowdown, bandwidth, bound.lower.si(), step.si());
            CHECK(bound.lower <= step * (1 + 1e-9));
            CHECK(bound.lower > 0.6 * step);
        }
    // where gathers take half of the step, and kernels beside them run at a quarter of their rate
    e.cluster.intra.bandwidth *= 0.3;
    e.cluster.inter.bandwidth *= 0.3;
    const Seconds alone = StepBounds(e)(plan_of(e)).lower;
    e.cluster.interference.compute_slowdown = 3;
    const Seconds slowed = StepBounds(e)(plan_of(e)).lower;
    CAPTURE(alone.si(), slowed.si());
    CHECK(slowed > 1.2 * alone);
    CHECK(slowed <= engine_step(e) * (1 + 1e-9));
}

// What a collective slows may run while the device would have waited for its host. The sum of both
// bounds is 1.18 of this step.
TEST_CASE("what a host loses and what collectives slow is not counted twice") {
    Experiment e = waiting_hosts(2e-5, 1e-3, TokenDispatch::once);
    e.workload.moe.dense_layers = 0;
    e.workload.vocab = 4096;
    e.cluster.intra.bandwidth *= 0.1;
    e.cluster.interference.compute_slowdown = 0.6;
    e.parallelism.tp = e.parallelism.cp = 4;
    e.parallelism.ep = 2;
    e.parallelism.zero = 3;
    e.parallelism.recompute = Recompute::full;
    e.runtime.exchanges.gradients = GradientOverlap::always;
    StepBounds bounds(e);
    const double tightness = bounds(plan_of(e)).lower / engine_step(e);
    CHECK(tightness <= 1 + 1e-9);
    CHECK(tightness >= 0.9);
}
