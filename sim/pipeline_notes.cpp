#include "sim/pipeline_notes.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "measured/read.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/step.h"
#include "sim/breakdown.h"

namespace stepcast {
namespace {

template <typename Change>
Seconds step_with(Experiment e, Change change) {
    change(e);
    const TaskGraph graph = build_step(e, routing_of(e));
    Timeline timeline;
    run(graph, price(graph, e.cluster), e.cluster.interference, timeline);
    return timeline.end;
}

std::string in_ms(Seconds time) { return fmt::format("{:.0f} ms", time.si() * 1e3); }
double percent(Seconds part, Seconds whole) { return part / whole * 100; }

// The time that each rank computes, runs collectives within its stage, or is in blocking messages.
std::vector<Seconds> working_times(const TaskGraph& graph, const Timeline& timeline) {
    return busy_times(graph, timeline, [&](TaskId t, const Place& place) {
        return place.lane() == Lane::compute || place.lane() == Lane::collective ||
               (place.lane() == Lane::host && std::holds_alternative<SendRecv>(graph.op(t)));
    });
}

std::string limit_note(const TaskGraph& graph, const Timeline& timeline) {
    const std::vector<Seconds> busy = working_times(graph, timeline);
    const int first = limiting_rank(graph, timeline);
    std::vector<Seconds> others = busy;
    others[as_index(first)] = Seconds(-1);
    const auto next = as_index(std::ranges::max_element(others) - others.begin());
    return fmt::format(
        "rank {} limits the pipeline: {:.0f} % of the step computing or in messages, rank {} as "
        "the next {:.0f} %",
        first, percent(busy[as_index(first)], timeline.end), next,
        percent(busy[next], timeline.end));
}

std::string message_note(const Experiment& e, Seconds step) {
    const Seconds without =
        step_with(e, [](Experiment& x) { x.cluster.host.message = Seconds(0); });
    const Seconds data_alone = step_with(e, [](Experiment& x) {
        x.runtime.pipeline.messages_per_tensor = 1;
        x.runtime.pipeline.messages_per_tuple = 0;
    });
    return fmt::format(
        "what the messages between stages cost the hosts is {:.0f} % of the step ({} without; {} "
        "with one message a "
        "tensor and no headers)",
        percent(step - without, step), in_ms(without), in_ms(data_alone));
}

// Another message cost can compensate a change of either, so a step time cannot determine schedule
// and link speed.
std::string unknown_note(const Experiment& e, Seconds step) {
    const Schedule other =
        e.parallelism.schedule == Schedule::gpipe ? Schedule::one_f_one_b : Schedule::gpipe;
    const Seconds with_other = step_with(e, [&](Experiment& x) { x.parallelism.schedule = other; });
    const Seconds faster = step_with(e, [](Experiment& x) { x.cluster.intra.bandwidth *= 2; });
    return fmt::format(
        "schedule and link speed are not determined by such a step, their priors are used: {} "
        "instead of {} {}, a link "
        "twice as fast {}, against {}; the cost of a message makes up for either",
        to_string(other), to_string(e.parallelism.schedule), in_ms(with_other), in_ms(faster),
        in_ms(step));
}

// The step if the message cost had not been fitted to steps.
std::vector<std::string> prior_notes(const Experiment& e, Seconds step) {
    if (!e.cluster.fitted) return {};
    for (const FittedParameter& p : e.cluster.fitted->parameters) {
        if (p.key != "host.message" || !p.determined) continue;
        const std::string key = "cluster.host.message", now = get_key(e, key);
        if (now == p.prior) return {"from priors alone: no constant was fitted to a step time"};
        const Seconds before = step_with(e, [&](Experiment& x) { set_key(x, {key, p.prior}); });
        return {
            fmt::format("from priors alone (datasheet, the run's layer timers, one message {}; "
                        "nothing fitted to a "
                        "step): {}; with the "
                        "message fitted to steps of the run ({}): {}",
                        short_value(p.prior), in_ms(before), now, in_ms(step))};
    }
    return {};
}

}  // namespace

int limiting_rank(const TaskGraph& graph, const Timeline& timeline) {
    const bool pipelined = std::ranges::any_of(
        graph.ops(), [](const Op& op) { return std::holds_alternative<SendRecv>(op); });
    if (!pipelined) return slowest_rank(graph, timeline);
    const std::vector<Seconds> busy = working_times(graph, timeline);
    return as_int(std::ranges::max_element(busy) - busy.begin());
}

std::optional<UnequalStages> unequal_stages(const TaskGraph& graph, const Timeline& timeline) {
    constexpr double least = 0.1;  // of the step
    const std::vector<int> stages = pipeline_stages(graph);
    const int count = *std::ranges::max_element(stages) + 1;
    if (count == 1) return std::nullopt;
    const std::vector<Seconds> busy = working_times(graph, timeline);
    std::vector<Seconds> work(as_index(count));
    for (const std::size_t rank : indices_of(busy)) work[as_index(stages[rank])] += busy[rank];
    const double ranks = real(busy.size()) / count;
    for (Seconds& of_stage : work) of_stage = of_stage / ranks;
    const auto fullest = std::ranges::max_element(work);
    UnequalStages found;
    found.stage = as_int(fullest - work.begin());
    found.stages = count;
    const Seconds most = *fullest;
    found.lost = most - std::reduce(work.begin(), work.end()) / count;
    if (found.lost < least * timeline.end) return std::nullopt;
    for (TaskId t = 0; t < graph.size() && !found.logits; ++t)
        found.logits = graph.name(t) == "logits" &&
                       stages[as_index(graph.places(t).front().rank())] == found.stage;
    std::ranges::nth_element(work, work.begin() + count / 2);
    found.over_median = most / work[as_index(count / 2)];
    return found;
}

std::vector<std::string> pipeline_notes(const Experiment& e, const TaskGraph& graph,
                                        const Timeline& timeline) {
    if (!e.runtime.pipeline.blocking || e.parallelism.pp == 1) return {};
    const Seconds step = step_with(e, [](Experiment&) {});  // without the noise of a draw
    std::vector<std::string> notes = prior_notes(e, step);
    notes.push_back(limit_note(graph, timeline));
    notes.push_back(message_note(e, step));
    notes.push_back(unknown_note(e, step));
    return notes;
}

}  // namespace stepcast
