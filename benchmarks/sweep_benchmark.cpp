// How many configurations a second one core takes through the closed form with its memory verdict:
// every legal split of GPT-3 175B over 1,024 A100 with 1,536 sequences a step, and the same with
// every overlap switch on and off; nothing kept.
#include <benchmark/benchmark.h>

#include "measured/read.h"
#include "model/experiment.h"
#include "sim/sweep/worker.h"

namespace stepcast {
namespace {

void screen_gpt3(benchmark::State& state, const std::vector<std::string>& switches) {
    const std::vector<Override> overrides{{"cluster.nodes", "128"},
                                          {"parallelism.global_batch", "1536"}};
    SweepQuestion question;
    question.experiment = read_unchecked_experiment("gpt3_175b_a100", overrides);
    question.axes = {parse_axis("parallelism=all")};
    for (const std::string& key : switches)
        question.axes.push_back(parse_axis(key + "=true,false"));
    const SweepSpace space(question.experiment, question.axes);
    SweepJob job{.items = {}, .points = {}, .incumbents = {}};
    for (std::uint64_t item = 0; item < space.item_count(); ++item) job.items.push_back(item);
    // An incumbent that excludes all: what is measured is the walk, the bound and the verdict.
    for (int i = 0; i < question.top; ++i) job.incumbents.push_back({{1e-9, 0}, {}, 0});
    std::uint64_t legal = 0;
    for (auto _ : state) {
        SweepWorker worker(space, question, std::make_shared<SweepCommons>());
        const SweepJobResult result = worker.run(job);
        legal += result.screened.legal;
    }
    state.counters["configurations"] =
        benchmark::Counter(static_cast<double>(legal), benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(screen_gpt3, splits, {})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(screen_gpt3, splits_and_overlaps,
                  {"parallelism.overlap", "parallelism.overlap_params", "parallelism.overlap_p2p",
                   "parallelism.scatter_p2p"})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepcast
