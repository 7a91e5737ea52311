#include "sim/explain/attribution.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "model/base/refuse.h"
#include "model/step.h"
#include "sim/breakdown.h"
#include "sim/engine/simulate.h"

namespace stepcast {

std::vector<KindError> kind_errors(const TaskGraph& graph, const Costs& measured, Seconds replayed,
                                   const std::vector<Seconds>& predicted,
                                   const std::function<bool(const Place&)>& counted) {
    const auto of = [&](TaskId t) { return std::pair(graph.phase(t), kind_name(graph.op(t))); };
    std::map<std::pair<Phase, std::string_view>, KindError> sums;
    for (TaskId t = 0; t < graph.size(); ++t) {
        if (std::ranges::none_of(graph.places(t), counted)) continue;
        KindError& sum = sums[of(t)];
        std::tie(sum.phase, sum.kind) = of(t);
        sum.predicted += predicted[t];
        sum.measured += measured.duration[t];
    }
    Timeline timeline;
    std::vector<KindError> kinds;
    for (auto& [kind, sum] : sums) {
        Costs swapped = measured;
        for (TaskId t = 0; t < graph.size(); ++t)
            if (of(t) == kind) swapped.duration[t] = predicted[t];
        run_in_order(graph, swapped, timeline);
        sum.effect = timeline.end - replayed;
        kinds.push_back(sum);
    }
    std::ranges::stable_sort(kinds, std::ranges::greater{},
                             [](const KindError& k) { return std::abs(k.effect.si()); });
    return kinds;
}

ErrorAttribution attribute_error(const Experiment& e, const std::vector<Seconds>& durations,
                                 Seconds measured) {
    const TaskGraph graph = build_step(e, routing_of(e), Folding::never);
    if (durations.size() != graph.size())
        refuse(
            "run of {}: {} tasks were measured; expected the {} of the experiment as it reads "
            "now; execute it again",
            e.name, durations.size(), graph.size());
    const Costs predicted = price(graph, e.cluster);
    Timeline timeline;
    run(graph, predicted, e.cluster.interference, timeline);
    ErrorAttribution attribution{timeline.end, {}, measured, {}};
    // Measured durations already contain what tasks did to each other, so the replay has no
    // interference.
    const Costs replay{durations, predicted.issue};
    run_in_order(graph, replay, timeline);
    attribution.replayed = timeline.end;
    const int last = slowest_rank(graph, timeline);
    attribution.kinds = kind_errors(graph, replay, timeline.end, predicted.duration,
                                    [&](const Place& p) { return p.rank() == last; });
    return attribution;
}

}  // namespace stepcast
