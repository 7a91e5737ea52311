// Tasks per second of the two engines and of building a graph, on 1F1B pipelines. Arguments: tasks,
// stages.

#include <cmath>
#include <random>

#include <benchmark/benchmark.h>

#include "sim/engine/contention.h"
#include "sim/engine/event_engine.h"
#include "sim/engine/simulate.h"
#include "tests/pipeline_graphs.h"

using namespace stepcast;

namespace {

// A micro-batch is a forward and a backward a stage, and two sends between neighbours.
TaskGraph pipeline_of(const benchmark::State& state) {
    const std::int64_t tasks = state.range(0), stages = state.range(1),
                       per_micro_batch = 4 * stages - 2;
    return graphs::pipeline({static_cast<int>(stages),
                             static_cast<int>((tasks + per_micro_batch - 1) / per_micro_batch)});
}

// Costs that keep events apart, as measured ones do: sends take a third of a forward, and no two
// stages are equal.
Costs costs_of(const TaskGraph& graph) {
    Costs costs;
    costs.issue.assign(graph.size(), Seconds(0));
    costs.duration.reserve(graph.size());
    for (TaskId t = 0; t < graph.size(); ++t) {
        const double uneven = 1 + 1e-3 * graph.places(t).front().rank();
        const bool sends = graph.places(t).size() > 1;
        const double work = sends ? 1 : graph.phase(t) == Phase::forward ? 3 : 6;
        costs.duration.push_back(Seconds(1e-3 * work * uneven));
    }
    return costs;
}

// What graph and timeline hold for a task; costs are the caller's.
double bytes_per_task(const TaskGraph& graph) {
    const auto tasks = static_cast<double>(graph.size());
    double places = 0, edges = 0;
    for (TaskId t = 0; t < graph.size(); ++t) {
        places += static_cast<double>(graph.places(t).size());
        edges += static_cast<double>(graph.predecessors(t).size());
    }
    const double fixed = 2 * sizeof(std::uint32_t) + sizeof(OpId) + sizeof(NameId) + sizeof(float) +
                         sizeof(Phase) + sizeof(GroupId);
    return fixed + (places * sizeof(Place) + edges * sizeof(TaskId)) / tasks + 2 * sizeof(Seconds);
}

void report(benchmark::State& state, const TaskGraph& graph) {
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(graph.size()));
    state.counters["bytes_per_task"] = bytes_per_task(graph);
}

void build(benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(pipeline_of(state));
    report(state, pipeline_of(state));
}

void run_in_order(benchmark::State& state, Seconds issue) {
    const TaskGraph graph = pipeline_of(state);
    Costs costs = costs_of(graph);
    costs.issue.assign(graph.size(), issue);
    Timeline timeline;
    for (auto _ : state) {
        stepcast::run_in_order(graph, costs, timeline);
        benchmark::DoNotOptimize(timeline.end);
    }
    report(state, graph);
}

void in_order(benchmark::State& state) { run_in_order(state, Seconds(0)); }
void in_order_with_hosts(benchmark::State& state) { run_in_order(state, Seconds(5e-6)); }

// Every task longer or shorter by about `jitter`, none like another.
void add_jitter(Costs& costs, double jitter) {
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal;
    for (Seconds& duration : costs.duration) duration *= std::exp(jitter * normal(random));
}

// `kept`: the engine is made once and runs many times, as what-ifs and draws of noise use it.
void contention(benchmark::State& state, Interference slowdowns, double jitter, bool kept) {
    const TaskGraph graph = pipeline_of(state);
    Costs costs = costs_of(graph);
    if (jitter > 0) add_jitter(costs, jitter);
    Timeline timeline;
    EventEngine engine(graph);
    for (auto _ : state) {
        if (kept)
            engine.run(costs, slowdowns, timeline);
        else
            run_with_contention(graph, costs, slowdowns, timeline);
        benchmark::DoNotOptimize(timeline.end);
    }
    report(state, graph);
}

void sizes(benchmark::internal::Benchmark* b) {
    b->ArgsProduct({{10'000, 100'000, 1'000'000, 10'000'000}, {16}})->Args({1'000'000, 1024});
    b->Unit(benchmark::kMillisecond);
}

}  // namespace

BENCHMARK(build)->Apply(sizes);
BENCHMARK(in_order)->Apply(sizes);
BENCHMARK(in_order_with_hosts)->Apply(sizes);
BENCHMARK_CAPTURE(contention, none, Interference{}, 0, false)->Apply(sizes);
BENCHMARK_CAPTURE(contention, both, Interference{0.1, 0.2}, 0, false)->Apply(sizes);
BENCHMARK_CAPTURE(contention, jitter, Interference{0.1, 0.2}, 0.05, false)->Apply(sizes);
BENCHMARK_CAPTURE(contention, jitter_kept, Interference{0.1, 0.2}, 0.05, true)->Apply(sizes);

BENCHMARK_MAIN();
