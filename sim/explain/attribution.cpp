#include "sim/explain/explain.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "model/errors.h"
#include "model/step.h"
#include "sim/breakdown.h"
#include "sim/engine/simulate.h"

namespace stepcast {
namespace {

using Kind = std::pair<Phase, std::string_view>;

Kind kind_of(const TaskGraph& graph, TaskId t) { return {graph.phase(t), kind_name(graph.op(t))}; }

// Durations of both sides, per kind, of the tasks in which the rank takes part.
std::map<Kind, KindError> sums_of(const TaskGraph& graph, const Costs& predicted, const std::vector<Seconds>& measured,
                                  int rank) {
    std::map<Kind, KindError> sums;
    for (TaskId t = 0; t < graph.size(); ++t) {
        if (std::ranges::none_of(graph.places(t), [&](const Place& place) { return place.rank() == rank; })) continue;
        const Kind kind = kind_of(graph, t);
        KindError& sum = sums[kind];
        sum.kind = kind.second;
        sum.phase = kind.first;
        sum.predicted += predicted.duration[t];
        sum.measured += measured[t];
    }
    return sums;
}

}  // namespace

ErrorAttribution attribute_error(const Experiment& e, const std::vector<Seconds>& durations, Seconds measured) {
    const TaskGraph graph = build_step(e, routing_of(e), Folding::never);
    if (durations.size() != graph.size())
        throw ConfigError(
            fmt::format("run of {}: {} tasks were measured; expected the {} of the experiment as it reads "
                        "now; execute it again",
                        e.name, durations.size(), graph.size()));
    const Costs predicted = price(graph, e.cluster);
    Timeline timeline;
    run(graph, predicted, e.cluster.interference, timeline);
    ErrorAttribution attribution{timeline.end, {}, measured, {}};
    // Measured durations hold what tasks did to each other, so the replay has no interference.
    const Costs replay{durations, predicted.issue};
    run_in_order(graph, replay, timeline);
    attribution.replayed = timeline.end;
    for (auto& [kind, sum] : sums_of(graph, predicted, durations, slowest_rank(graph, timeline))) {
        Costs swapped = replay;
        for (TaskId t = 0; t < graph.size(); ++t)
            if (kind_of(graph, t) == kind) swapped.duration[t] = predicted.duration[t];
        run_in_order(graph, swapped, timeline);
        sum.effect = timeline.end - attribution.replayed;
        attribution.kinds.push_back(sum);
    }
    std::ranges::stable_sort(attribution.kinds, std::ranges::greater{}, [](const KindError& kind) { return std::abs(kind.effect.si()); });
    return attribution;
}

}  // namespace stepcast
