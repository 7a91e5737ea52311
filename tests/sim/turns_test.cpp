// Passes that take turns (parallelism.overlap_experts): the exchanges of one pass run beside the
// work of the other.
#include <catch2/catch.hpp>

#include <map>

#include "model/transformer/step.h"
#include "sim/engine/simulate.h"
#include "sim/memory/memory_points.h"
#include "tests/transformers.h"

using namespace stepcast;

namespace {

// One layer of experts, two micro-batches on each rank.
Experiment passes_by_turns(bool turns) {
    Experiment e = small_moe();
    e.workload.layers = 1;
    e.parallelism.global_batch = 2 * e.parallelism.dp * e.parallelism.micro_batch;
    e.parallelism.overlap_experts = turns;
    return e;
}

// One second for each exchange, for all products of the experts together and for attention (counted
// on its norm), nothing for the rest. `passes`: number of passes in each phase.
Costs a_second_each(const TaskGraph& graph, double passes = 2) {
    std::map<Phase, double> products;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (std::holds_alternative<GroupedGemm>(graph.op(t))) ++products[graph.phase(t)];
    Costs costs;
    for (TaskId t = 0; t < graph.size(); ++t) {
        double time = 0;
        if (std::holds_alternative<GroupedGemm>(graph.op(t)))
            time = passes / products[graph.phase(t)];
        if (std::holds_alternative<AllToAll>(graph.op(t)) || graph.name(t) == "attention_norm" ||
            graph.name(t) == "attention_norm_backward")
            time = 1;
        costs.duration.emplace_back(time);
        costs.issue.emplace_back(0.0);
    }
    return costs;
}

Seconds step(const TaskGraph& graph, double passes = 2) {
    Timeline timeline;
    run_in_order(graph, a_second_each(graph, passes), timeline);
    return timeline.end;
}

}  // namespace

// A pass takes four seconds: attention, dispatch, experts and combine, or the same backwards. Four
// passes one after the other take 16. By turns F0 and B1 stand alone, and in [F1 B0] these run side
// by side: combine back and attention; dispatch and the experts back; dispatch back and the
// experts; combine and attention back. Both passes together take four seconds, so the step
// takes 12.
TEST_CASE("in passes that go by turns each exchange hides behind the other's work") {
    const TaskGraph alone = build_transformer_step(passes_by_turns(false), {}),
                    pairs = build_transformer_step(passes_by_turns(true), {});
    CHECK(step(alone).si() == Approx(16));
    CHECK(step(pairs).si() == Approx(12));
    CHECK(pairs.size() == alone.size());
}

// Stages of one layer. A forward takes 1 s, a backward 1 s for the gradients of the input and 1 s
// for those of the weights. A stage has 4 p of each, and waits another (p / 2 - 1)(F + B - 2 W).
TEST_CASE("dualpipe's slots run one after the other: the bubble is (p/2 - 1)(F + B - 2W)") {
    for (const int pp : {4, 8}) {
        Experiment e = small_gpt();
        e.workload.layers = pp;
        e.parallelism.pp = pp;
        e.parallelism.schedule = Schedule::dualpipe;
        e.parallelism.global_batch = 4 * pp;
        e.runtime.gradients.type = GradientType::fp32;
        const TaskGraph graph = build_transformer_step(e, {});
        Costs costs;
        for (TaskId t = 0; t < graph.size(); ++t) {
            const std::string_view name = graph.name(t);
            // accumulating GEMMs compute weight gradients
            const auto* gemm = std::get_if<Gemm>(&graph.op(t));
            const bool counts = name == "attention_norm" || name == "attention_norm_backward" ||
                                (name == "attention_output" && gemm && gemm->accumulate);
            costs.duration.emplace_back(counts ? 1.0 : 0.0);
            costs.issue.emplace_back(0.0);
        }
        Timeline timeline;
        run_in_order(graph, costs, timeline);
        CHECK(timeline.end.si() == Approx(3 * 4 * pp + (pp / 2 - 1) * (1 + 2 - 2)));
    }
}

// Experts on two ranks, four stages, 16 micro-batches. A pass takes four seconds as above, half a
// second of a backward for weight gradients. One after the other, 16 passes of each kind take 128 s
// and the bubble 4 + 4 - 2 / 2 = 7. In pairs the first stage runs 11 pairs of four seconds and 10
// single passes: 84 s and at most (p/2 - 1)(F&B + B - 3W) = 6.5, as each half waits only for its
// own input.
TEST_CASE("dualpipe in pairs hides all-to-alls") {
    Experiment e = passes_by_turns(false);
    e.workload.layers = e.parallelism.pp = 4;
    e.parallelism.schedule = Schedule::dualpipe;
    e.parallelism.global_batch = 16 * e.parallelism.dp;
    const TaskGraph alone = build_transformer_step(e, {});
    e.parallelism.overlap_experts = true;
    const TaskGraph pairs = build_transformer_step(e, {});
    CHECK(pairs.size() == alone.size());
    const double passes = 16 * 4;
    CHECK(step(alone, passes).si() == Approx(128 + 7));
    CHECK(step(pairs, passes) >= Seconds(84));
    CHECK(step(pairs, passes) <= Seconds(84 + 6.5));
}

// Both micro-batches have the same tasks, and all tasks of the layer are labelled. Each rank's
// memory has one point before the slots and two for each of the four slots.
TEST_CASE("tasks of passes that go by turns are labelled by their own micro-batch") {
    const Experiment e = passes_by_turns(true);
    const TaskGraph graph = build_transformer_step(e, {});
    std::map<std::pair<int, Phase>, int> count;
    for (TaskId t = 0; t < graph.size(); ++t)
        if (const int micro_batch = graph.label(t).micro_batch; micro_batch >= 0)
            ++count[{micro_batch, graph.phase(t)}];
    CHECK(count[{0, Phase::forward}] > 0);
    CHECK(count[{0, Phase::backward}] > 0);
    CHECK(count[{0, Phase::forward}] == count[{1, Phase::forward}]);
    CHECK(count[{0, Phase::backward}] == count[{1, Phase::backward}]);
    Timeline timeline;
    run_in_order(graph, a_second_each(graph), timeline);
    CHECK(memory_points(e, {}, graph, to_trace(graph, timeline)).size() ==
          static_cast<std::size_t>(graph.rank_count()) * (1 + 2 * 4));
}
