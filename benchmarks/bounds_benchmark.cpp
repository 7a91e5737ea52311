// Closed forms over the space of GPT-3 175B on 1,024 A100: every legal split, schedule, recompute
// and ZeRO stage with the options of overlap, a memory verdict for each. Counts configurations a
// second of one core; the first pass also prices.
#include <benchmark/benchmark.h>

#include "measured/read.h"
#include "sim/bounds/bounds.h"
#include "tests/split_space.h"

using namespace stepcast;

namespace {

Experiment gpt3_on_1024_a100() {
    Experiment e = read_experiment("gpt3_175b_a100");
    e.workload.dtype = Dtype::bf16;
    e.runtime.attention = AttentionKind::flash;
    e.workload.dropout = 0;
    e.parallelism = {};
    e.parallelism.global_batch = 1536;
    e.cluster.nodes = 128;
    return e;
}

void whole_space(benchmark::State& state) {
    const Experiment base = gpt3_on_1024_a100();
    std::int64_t fitting = 0, all = 0;
    StepBounds bounds(base);
    for (auto _ : state)
        for_each_split(base, [&](const ParallelPlan& p) {
            fitting += bounds(p).fits;
            ++all;
        });
    state.SetItemsProcessed(all);
    state.counters["fitting"] = static_cast<double>(fitting) / static_cast<double>(all);
}

void one_pipeline(benchmark::State& state) {
    Experiment base = gpt3_on_1024_a100();
    ParallelPlan plan = plan_of(base);
    auto& [p, exchanges] = plan;
    p.tp = 8;
    p.pp = 8;
    p.dp = 16;
    StepBounds bounds(base);
    std::int64_t n = 0;
    for (auto _ : state) {
        p.zero = static_cast<int>(n % 3);
        exchanges.gradients = n++ % 2 == 0 ? GradientOverlap::always : GradientOverlap::never;
        benchmark::DoNotOptimize(bounds(plan));
    }
    state.SetItemsProcessed(n);
}

}  // namespace

BENCHMARK(whole_space)->Unit(benchmark::kSecond)->Iterations(2);
BENCHMARK(one_pipeline);
