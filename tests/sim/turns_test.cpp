// Passes that go by turns (parallelism.overlap_experts): what is exchanged for the one runs beside the work of the other.
#include <catch2/catch.hpp>

#include <map>

#include "model/transformer/step.h"
#include "sim/engine/simulate.h"
#include "sim/step_labels.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

// One layer of experts, two micro-batches on either rank.
Experiment by_turns(bool turns) {
    Experiment e = small_moe();
    e.workload.layers = 1;
    e.parallelism.global_batch = 2 * e.parallelism.dp * e.parallelism.micro_batch;
    e.parallelism.overlap_experts = turns;
    return e;
}

// A second for each exchange, for the products of the experts together and for attention, as its norm stands for it; for nothing else.
Costs a_second_each(const TaskGraph& graph) {
    constexpr double passes = 2;  // of either phase
    std::map<Phase, double> products;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (std::holds_alternative<GroupedGemm>(graph.op(t))) ++products[graph.phase(t)];
    Costs costs;
    for (TaskId t = 0; t < graph.size(); ++t) {
        double time = 0;
        if (std::holds_alternative<GroupedGemm>(graph.op(t))) time = passes / products[graph.phase(t)];
        if (std::holds_alternative<AllToAll>(graph.op(t)) || graph.name(t) == "attention_norm" || graph.name(t) == "attention_norm_backward") time = 1;
        costs.duration.emplace_back(time);
        costs.issue.emplace_back(0.0);
    }
    return costs;
}

Seconds step(const TaskGraph& graph) {
    Timeline timeline;
    run_in_order(graph, a_second_each(graph), timeline);
    return timeline.end;
}

}  // namespace

// A pass takes attention, dispatch, experts and combine, or the same backwards: four seconds, four passes one after the other 16. By turns F0
// and B1 stand alone, and in [F1 B0] run side by side: combine back and attention, dispatch and the experts back, dispatch back and the experts,
// combine and attention back. That is four seconds for both, 12 in all.
TEST_CASE("in passes that go by turns each exchange hides behind the other's work") {
    const TaskGraph alone = build_transformer_step(by_turns(false), {}), pairs = build_transformer_step(by_turns(true), {});
    CHECK(step(alone).si() == Approx(16));
    CHECK(step(pairs).si() == Approx(12));
    CHECK(pairs.size() == alone.size());
}

// Both micro-batches have the same tasks, and all of the layer's are labelled; each rank's memory has a point before the slots and two of each of
// the four.
TEST_CASE("tasks of passes that go by turns are labelled by their own micro-batch") {
    const Experiment e = by_turns(true);
    const TaskGraph graph = build_transformer_step(e, {});
    const StepLabels labels = step_labels(e, {}, graph);
    std::map<std::pair<int, Phase>, int> count;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (labels.micro_batch[t] >= 0) ++count[{labels.micro_batch[t], graph.phase(t)}];
    CHECK(count[{0, Phase::forward}] > 0);
    CHECK(count[{0, Phase::backward}] > 0);
    CHECK(count[{0, Phase::forward}] == count[{1, Phase::forward}]);
    CHECK(count[{0, Phase::backward}] == count[{1, Phase::backward}]);
    Timeline timeline;
    run_in_order(graph, a_second_each(graph), timeline);
    CHECK(memory_points(e, {}, graph, to_trace(graph, timeline)).size() == static_cast<std::size_t>(graph.rank_count()) * (1 + 2 * 4));
}
