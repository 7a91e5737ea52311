// Laws of any legal experiment, checked on random ones (tests/random_experiments.h).

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <unistd.h>
#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/input/key_table.h"
#include "model/input/keys.h"
#include "model/runtime_rules.h"
#include "model/step.h"
#include "sim/explain/cluster_parameters.h"
#include "sim/explain/explain.h"
#include "sim/memory/memory_use.h"
#include "sim/predict.h"
#include "sim/sweep/sweep.h"
#include "tests/random_experiments.h"

using namespace stepcast;

namespace {

constexpr std::uint64_t drawn_cases = 120;

Timeline timeline_of(const Experiment& e, Folding folding) {
    const TaskGraph graph = build_step(e, routing_of(e), folding);
    Timeline timeline;
    run(graph, price(graph, e.cluster), e.cluster.interference, timeline);
    return timeline;
}

template <class Law>
void for_experiments(const Law& law, std::uint64_t count = drawn_cases) {
    for (std::uint64_t seed = 1; seed <= count; ++seed) {
        const Experiment e = random_experiment(seed);
        const Parallelism& p = e.parallelism;
        CAPTURE(seed, p.tp, p.pp, p.vp, p.dp, p.cp, p.ep, p.zero, p.micro_batch, p.global_batch,
                to_string(p.schedule), to_string(p.recompute), overlaps_gradients(e),
                p.sequence_parallel);
        law(e);
    }
}

SweepQuestion question_of(const Experiment& e, const std::vector<std::string>& vary) {
    SweepQuestion q;
    q.experiment = e;
    for (const auto& text : vary) q.axes.push_back(parse_axis(text));
    return q;
}

Experiment with(Experiment e, const std::string& key, const std::string& value) {
    set_key(e, {key, value});
    return e;
}

}  // namespace

TEST_CASE("any experiment: folded is unfolded") {
    for_experiments(
        [](const Experiment& e) {
            const Seconds folded = timeline_of(e, Folding::automatic).end,
                          whole = timeline_of(e, Folding::never).end;
            CHECK(folded / whole == Approx(1).epsilon(1e-9));
        },
        60);
}

TEST_CASE(
    "any experiment: the forecast is the end of its trace, its row in a sweep, and the same a "
    "second time") {
    for_experiments([](const Experiment& e) {
        const Prediction p = predict_step(e);
        CHECK(step_end(to_trace(p.graph, p.timeline)) == p.forecast.step.p50);
        CHECK(predict(e) == p.forecast);
        Experiment roomy = e;
        roomy.cluster.gpu.memory = Bytes(1e15);
        const SweepAnswer one =
            sweep(question_of(roomy, {"parallelism.zero=" + std::to_string(e.parallelism.zero)}),
                  {.threads = 1});
        REQUIRE(one.best.size() == 1);
        CHECK(one.best.front().step == p.forecast.step.p50);
        CHECK(one.best.front().forecast.step.p50 == p.forecast.step.p50);
    });
}

TEST_CASE(
    "any experiment: the closed form's bound is not above the step, its estimate not below the "
    "bound") {
    for_experiments(
        [](const Experiment& e) {
            if (!StepBounds::cover(e)) return;
            const StepBound bound = StepBounds(e)(plan_of(e));
            CHECK(bound.lower <= simulated_step(e) * (1 + 1e-9));
            CHECK(bound.estimate >= bound.lower);
            CHECK(bound.peak == memory_use(e, routing_of(e)).peak);
        },
        2 * drawn_cases);
}

TEST_CASE("any experiment: the parts of the breakdown are none below zero and add up to the step") {
    for_experiments([](const Experiment& e) {
        const Forecast f = predict(e);
        const Breakdown& b = f.breakdown;
        for (const Seconds part :
             {b.compute, b.memory, b.exposed_communication, b.bubble, b.imbalance, b.host})
            CHECK(part >= Seconds(0));
        CHECK(total(b) / f.step.p50 == Approx(1).epsilon(1e-9));
        if (e.parallelism.pp == 1) CHECK(b.bubble == Seconds(0));
        const StepTimes& t = f.phases;
        CHECK(t.forward + t.backward + t.gradient_sync + t.optimizer <= t.step * (1 + 1e-9));
    });
}

// The law holds only without interference: where tasks slow each other, an earlier end of one can
// move another onto a third.
TEST_CASE("any experiment: more bandwidth, peak or memory is never slower") {
    for_experiments([](Experiment e) {
        e.cluster.interference = {};
        const Seconds step = simulated_step(e);
        for (const ClusterParameter& parameter : cluster_parameters(e.cluster)) {
            if (parameter.key.find("bandwidth") == std::string::npos &&
                parameter.key.find("gpu.peak") == std::string::npos &&
                parameter.key != "gpu.memory")
                continue;
            CAPTURE(parameter.key);
            Experiment faster = e;
            faster.cluster = with_scaled(e.cluster, parameter.key, 1.5);
            CHECK(simulated_step(faster) <= step * (1 + 1e-9));
            CHECK((!memory_use(e, {}).fits || memory_use(faster, {}).fits));
        }
    });
}

TEST_CASE("any experiment: memory rises with the micro-batch, states fall with ZeRO") {
    for_experiments([](Experiment e) {
        const MemoryUse one = memory_use(e, routing_of(e));
        Experiment two = e;
        two.parallelism.micro_batch *= 2;
        two.parallelism.global_batch *= 2;
        CHECK(memory_use(two, routing_of(two)).peak >= one.peak);
        // The peak is the fullest rank's, which can change with the ZeRO stage; each stage has its
        // own buffers.
        Bytes states(1e30), peak(1e30);
        for (e.parallelism.zero = 0; e.parallelism.zero <= 3; ++e.parallelism.zero) {
            CAPTURE(e.parallelism.zero);
            const MemoryUse m = memory_use(e, routing_of(e));
            CHECK(m.peak <= peak + m.buffers);
            if (e.parallelism.pp == 1) CHECK(m.weights + m.gradients + m.optimizer <= states);
            states = m.weights + m.gradients + m.optimizer;
            peak = m.peak;
        }
    });
}

// A lone replica has nobody to share its gradients, weights and optimizer with.
TEST_CASE("any experiment: on one replica the ZeRO stage changes nothing") {
    int seen = 0, accumulating = 0;
    for_experiments([&](Experiment e) {
        Parallelism& p = e.parallelism;
        const int batches = micro_batches(p);
        p.dp = p.cp = p.ep = e.cluster.nodes = 1;
        e.cluster.gpus_per_node = p.tp * p.pp;
        p.global_batch = batches * p.micro_batch;
        e.runtime.gradients.fused_accumulation = batches == 1;
        p.zero = 0;
        check_experiment(e);
        const Seconds step = simulated_step(e);
        const MemoryUse memory = memory_use(e, routing_of(e));
        for (p.zero = 1; p.zero <= 3; ++p.zero) {
            CAPTURE(p.zero);
            CHECK(simulated_step(e) / step == Approx(1).epsilon(1e-12));
            CHECK(memory_use(e, routing_of(e)) == memory);
        }
        ++seen;
        accumulating += batches > 1 ? 1 : 0;
    });
    CHECK(seen == static_cast<int>(drawn_cases));
    CHECK(accumulating > seen / 2);
}

// What a rank adds up is what it keeps of the gradients: all, or from zero 2 on its shard of dp x
// cp ranks, or of a group of `shard`. Pipelines keep all until the step's last backward.
TEST_CASE("any experiment: gradients that are added up are a rank's shard from zero 2 on") {
    int accumulating = 0;
    for_experiments([&](Experiment e) {
        Parallelism& p = e.parallelism;
        e.runtime.gradients.fused_accumulation = false;
        const auto added = [&] {
            const TaskGraph graph = build_step(e, routing_of(e));
            double bytes = 0;
            for (TaskId t = 0; t < graph.size(); ++t)
                if (graph.name(t) == "accumulate_gradient")
                    bytes += std::get<MemoryPass>(graph.op(t)).read.si();
            return bytes;
        };
        p.zero = 0;
        const double all = added();
        p.zero = 1;
        CHECK(added() == Approx(all));
        const double kept = p.pp > 1 ? all : all / (p.dp * p.cp);
        p.zero = 2;
        CHECK(added() == Approx(kept));
        p.zero = 3;
        CHECK(added() == Approx(kept));
        CHECK((all > 0) == (micro_batches(p) > 1));
        accumulating += all > 0 ? 1 : 0;
        if (e.workload.moe.experts > 0 || p.dp * p.cp % 2 != 0) return;
        p.shard = 2;
        CHECK(added() == Approx(p.pp > 1 ? all : all / 2));
    });
    CHECK(accumulating > 0);
}

TEST_CASE("any experiment: a sweep over it answers alike with one thread and with two") {
    for_experiments(
        [](const Experiment& e) {
            const SweepQuestion q =
                question_of(e, {"parallelism.zero=0,1,2,3", "parallelism.micro_batch=1,2,4"});
            CHECK(sweep(q, {.threads = 1}) == sweep(q, {.threads = 2}));
        },
        20);
}

TEST_CASE("any experiment: other spellings of a quantity are the same machine") {
    for_experiments(
        [](const Experiment& e) {
            const auto same = [&](const std::string& key, const std::string& a,
                                  const std::string& b) {
                CAPTURE(key, a, b);
                CHECK(simulated_step(with(e, key, a)) / simulated_step(with(e, key, b)) ==
                      Approx(1).epsilon(1e-12));
            };
            same("cluster.link.intra.bandwidth", "300 GB/s", "0.3 TB/s");
            same("cluster.link.inter.latency", "8 us", "0.008 ms");
            same("cluster.gpu.memory_bandwidth", "2 TiB/s", "2048 GiB/s");
            same("cluster.gpu.peak.bf16", "312 TFLOP/s", "0.312 PFLOP/s");
            same("parallelism.bucket", "8 MiB", "8192 KiB");
            same("cluster.host.call", "5 us", "\"5000 ns\"");
        },
        20);
}

TEST_CASE("any experiment: written key by key as TOML it reads equal") {
    const std::string path =
        (std::filesystem::temp_directory_path() / ("drawn_" + std::to_string(getpid()) + ".toml"))
            .string();
    for_experiments(
        [&](Experiment e) {
            {
                std::ofstream out(path);
                for (const Key& key : all_keys())
                    if (!is_preset(key) && !is_unset(key, e) && !is_missing(key, e))
                        out << key.path << " = " << toml_text_of(key, e) << "\n";
            }
            Experiment read = read_experiment(path);
            read.name = e.name;
            for (const Key& key : all_keys())
                if (!is_preset(key)) {
                    // a file without one gets the default framework
                    if (key.path.starts_with("framework.")) continue;
                    CAPTURE(key.path);
                    CHECK(text_of(key, read) == text_of(key, e));
                }
            read.framework = e.framework;
            read.overlay = e.overlay;
            CHECK(read == e);
        },
        40);
    std::remove(path.c_str());
}

// For every number of the cluster: 10 % more changes the step, or the explanation says that the
// number has no effect.
TEST_CASE(
    "any experiment: a number of the cluster changes the step or is reported without effect") {
    for_experiments(
        [](const Experiment& e) {
            const Explanation why = explain(e);
            const Seconds step = simulated_step(e);
            CHECK(why.step == step);
            for (const ClusterParameter& parameter : cluster_parameters(e.cluster)) {
                CAPTURE(parameter.key);
                Experiment changed = e;
                changed.cluster = with_scaled(e.cluster, parameter.key, 1.1);
                const bool moves = std::abs(simulated_step(changed) / step - 1) > 1e-6;
                const bool unused = std::ranges::find(why.without_effect, parameter.key) !=
                                    why.without_effect.end();
                CHECK_FALSE((moves && unused));
                CHECK((unused || std::ranges::any_of(why.elasticities, [&](const Elasticity& x) {
                           return x.key == parameter.key;
                       })));
            }
        },
        15);
}
