#include "calibrate/profiles/replay.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "sim/engine/simulate.h"

namespace stepcast {
namespace {

bool on_device(Lane lane) { return lane != Lane::host && lane != Lane::receive_up; }

// How long any of the stretches lasts, from beginnings to ends.
using Stretches = std::vector<std::pair<Seconds, Seconds>>;
Seconds covered(Stretches all) {
    std::ranges::sort(all);
    Seconds sum(0), end(-std::numeric_limits<double>::infinity());
    for (const auto& [from, to] : all) {
        sum += std::max(Seconds(0), to - std::max(from, end));
        end = std::max(end, to);
    }
    return sum;
}

}  // namespace

DeviceUse use_of(const TaskGraph& graph, const Trace& trace, int rank) {
    Stretches computing, all;
    Seconds first(std::numeric_limits<double>::infinity()), last(0);
    for (const Span& s : trace.spans) {
        if (s.place.rank() != rank || !on_device(s.place.lane())) continue;
        first = std::min(first, s.start);
        last = std::max(last, s.finish);
        const std::string_view kind = kind_name(graph.op(s.task));
        const bool computes = kind == "gemm" || kind == "attention" || kind == "memory_pass";
        if (graph.name(s.task).starts_with("Mem")) continue;  // a copy
        if (computes) computing.emplace_back(s.start, s.finish);
        all.emplace_back(s.start, s.finish);
    }
    return {std::max(Seconds(0), last - first), covered(all) - covered(computing)};
}

std::vector<KindError> kinds_of(const Replay& r, int rank) {
    std::map<std::pair<Phase, std::string_view>, KindError> sums;
    const auto of = [&](TaskId t) { return std::pair(r.graph.phase(t), kind_name(r.graph.op(t))); };
    for (TaskId t = 0; t < r.graph.size(); ++t) {
        if (std::ranges::none_of(r.graph.places(t), [&](const Place& p) { return p.rank() == rank && on_device(p.lane()); })) continue;
        KindError& sum = sums[of(t)];
        std::tie(sum.phase, sum.kind) = of(t);
        sum.predicted += r.table[t];
        sum.measured += r.measured[t];
    }
    Timeline timeline;
    std::vector<KindError> kinds;
    for (auto& [kind, sum] : sums) {
        Costs swapped{r.measured, std::vector<Seconds>(r.graph.size())};
        for (TaskId t = 0; t < r.graph.size(); ++t)
            if (of(t) == kind) swapped.duration[t] = r.table[t];
        run_in_order(r.graph, swapped, timeline);
        sum.effect = timeline.end - r.step.error.replayed;
        kinds.push_back(sum);
    }
    std::ranges::stable_sort(kinds, std::greater{}, [](const KindError& k) { return std::abs(k.effect.si()); });
    return kinds;
}

}  // namespace stepcast
