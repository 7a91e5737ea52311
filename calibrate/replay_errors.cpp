#include "calibrate/replay.h"

#include <algorithm>

#include "import/profiles/profile_times.h"

namespace stepcast {

DeviceUse use_of(const TaskGraph& graph, const Trace& trace, int rank) {
    std::vector<Span> spans = trace.spans;
    std::erase_if(
        spans, [&](const Span& s) { return s.place.rank() != rank || !on_device(s.place.lane()); });
    if (spans.empty()) return {};
    std::ranges::sort(spans, {}, &Span::start);
    const Seconds length = std::ranges::max(spans, {}, &Span::finish).finish - spans.front().start;
    // copies
    std::erase_if(spans, [&](const Span& s) { return graph.name(s.task).starts_with("Mem"); });
    const auto computes = [&](const Span& s) {
        const std::string_view kind = kind_name(graph.op(s.task));
        return kind == "gemm" || kind == "attention" || kind == "memory_pass";
    };
    return {length, covered(spans, [](const Span&) { return true; }) - covered(spans, computes)};
}

}  // namespace stepcast
