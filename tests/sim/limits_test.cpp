// The largest experiments, the refusals of larger ones, and forecasts at the legal extremes of
// every key.

#include <cmath>
#include <string>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "measured/read.h"
#include "model/base/errors.h"
#include "model/graph/task_graph.h"
#include "model/input/key_table.h"
#include "model/input/keys.h"
#include "model/step.h"
#include "sim/campaign.h"
#include "sim/predict.h"
#include "tests/model/files.h"
#include "tests/random_experiments.h"

using namespace stepcast;
using Catch::Matchers::Contains;

namespace {

// Checks that every printed value of a forecast is a finite number.
void check_finite(const Forecast& f) {
    for (const double value :
         {f.step.p10.si(), f.step.p50.si(), f.step.p90.si(), f.step.mean.si(), f.tokens_per_second,
          f.model_flops_utilization, f.memory.peak.si(), f.breakdown.compute.si(),
          f.breakdown.bubble.si(), f.breakdown.exposed_communication.si()}) {
        CHECK(std::isfinite(value));
        CHECK(value >= 0);
    }
    CHECK(f.step.p50 > Seconds(0));
}

Experiment with_micro_batches(int count) {
    Experiment e = small_gpt();
    e.cluster.gpus_per_node = 4;
    e.parallelism.pp = 4;
    e.parallelism.global_batch = count;
    return e;
}

}  // namespace

// 4 stages of one layer each. Each micro-batch adds the same number of tasks, so two sizes
// determine all others.
TEST_CASE("a step of too many tasks is refused before it is written, with how many it would take") {
    const auto tasks = [](int count) {
        return static_cast<double>(build_step(with_micro_batches(count), {}).size());
    };
    const double one = tasks(101) - tasks(100), needed = tasks(100) + one * (4'000'000 - 100);
    REQUIRE(needed > most_tasks);
    const std::string said = complaint([] { build_step(with_micro_batches(4'000'000), {}); });
    CHECK_THAT(said, Contains("parallelism.global_batch: 4000000 micro-batches") &&
                         Contains(std::to_string(static_cast<long>(needed))) &&
                         Contains("at most 50000000"));
}

TEST_CASE("more ranks than can be modelled are refused with their number") {
    Experiment e = small_gpt();
    e.cluster.nodes = 1 << 17;
    e.cluster.gpus_per_node = 16;
    e.parallelism.dp = 1 << 20;
    CHECK_THAT(complaint([&] { check_experiment(e); }),
               Contains("131072 x gpus_per_node 16 = 2097152 ranks; expected at most 1048576"));
}

// 10^6 GPUs, 10^15 tokens, 10^13 parameters: 12 x 1340 x 25000^2 = 1.005e13 in the layers'
// matrices. A step takes at least the time of 6 x parameters x tokens FLOPs at the peak of all
// ranks.
TEST_CASE("a million GPUs train 1e13 parameters on 1e15 tokens without an overflow") {
    Experiment e = small_gpt();
    Workload& w = e.workload;
    w.layers = 1340;
    w.hidden = 25'000;
    w.heads = 200;
    w.ffn = 100'000;
    w.vocab = 100'000;
    w.seq = 4096;
    e.cluster.nodes = 125'000;
    e.cluster.gpus_per_node = 8;
    e.cluster.gpu.memory = Bytes(1e14);
    e.parallelism.tp = 8;
    e.parallelism.pp = 20;
    e.parallelism.dp = 6250;
    e.parallelism.zero = 1;
    e.parallelism.global_batch = 6250 * 40;
    e.parallelism.recompute = Recompute::full;
    check_experiment(e);
    const Forecast f = predict(e);
    check_finite(f);
    const double tokens = 6250.0 * 40 * 4096, flops = 6 * 1.005e13 * tokens,
                 peak = 1e6 * stepcast::peak(e.cluster.gpu, w.dtype).si();
    CHECK(f.step.p50.si() > flops / peak);
    CHECK(f.tokens_per_second == Approx(tokens / f.step.p50.si()));
    const Campaign campaign = campaign_of({.tokens = 1e15, .steps = 0, .market = {}}, e, f);
    CHECK(campaign.steps == Approx(1e15 / tokens));
    CHECK(std::isfinite(campaign.time[1].si()));
}

// Sets each number to its declared minimum, its maximum and a hundred-thousandth of its value: a
// finite forecast or a refusal.
TEST_CASE("no legal extreme of any key makes a step that is no time") {
    std::uint64_t seed = 1;
    Experiment start = random_experiment(seed);
    while (start.workload.moe.experts == 0 || start.parallelism.pp == 1 || start.cluster.nodes == 1)
        start = random_experiment(++seed);
    int forecasts = 0, refusals = 0;
    for (const Key& key : all_keys())
        for (const std::string& text :
             {fmt::format("{:.0f}", key.least), fmt::format("{:.0f}", key.most),
              std::string("1e-30"), std::string("1e-30 s"), std::string("1e-30 B"),
              std::string("1e-30 FLOP/s"), std::string("1 FLOP/s"), std::string("1 B/s"),
              fmt::format("{:e} s", key.most), fmt::format("{:e} B", key.most),
              fmt::format("{:e} B/s", key.most), fmt::format("{:e} FLOP/s", key.most)}) {
            if (is_preset(key) || key.path.starts_with("run.")) continue;
            CAPTURE(key.path, text);
            Experiment e = start;
            try {
                set_key(e, {std::string(key.path), text});
                check_experiment(e);
                check_finite(predict(e));
                ++forecasts;
            } catch (const ConfigError& error) {
                CHECK(std::string(error.what()).size() > 10);
                ++refusals;
            }
        }
    CHECK(forecasts > 100);
    CHECK(refusals > 100);
}
