#include "calibrate/profiles/replay.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace stepcast {
namespace {

// Length of the union of stretches (from, to).
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

}  // namespace stepcast
