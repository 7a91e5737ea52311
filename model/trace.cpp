#include "model/trace.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace stepcast {
namespace {

[[noreturn]] void broken(std::string what) { throw std::logic_error("check_trace: " + std::move(what)); }

// When `rank` has seen the task of these spans finish: on itself when it took part (the ranks of an executed
// collective leave it one after another), else everywhere.
Seconds finish_seen_by(int rank, std::span<const Span> spans) {
    Seconds own, all;
    bool took_part = false;
    for (const Span& span : spans) {
        all = std::max(all, span.finish);
        if (span.place.rank() != rank) continue;
        took_part = true;
        own = std::max(own, span.finish);
    }
    return took_part ? own : all;
}

}  // namespace

Seconds step_end(const Trace& trace) {
    Seconds end;
    for (const Span& span : trace.spans) end = std::max(end, span.finish);
    return end;
}

void check_trace(const TaskGraph& graph, const Trace& trace, Seconds slack) {
    std::vector<std::span<const Span>> spans_of(graph.size());
    std::vector<Seconds> free(static_cast<std::size_t>(graph.place_count()));
    std::size_t next = 0;
    for (TaskId t = 0; t < graph.size(); ++t) {
        const std::size_t first = next;
        for (const Place& place : graph.places(t)) {
            if (next == trace.spans.size())
                broken(fmt::format("no span of task {} ({}) on rank {}", t, graph.name(t), place.rank()));
            const Span& span = trace.spans[next++];
            if (span.task != t || !(span.place == place))
                broken(fmt::format("span {} is of task {} on rank {}, expected task {} ({}) on rank {}", next - 1,
                                   span.task, span.place.rank(), t, graph.name(t), place.rank()));
            if (span.finish < span.start)
                broken(fmt::format("task {} ({}) finishes before it starts", t, graph.name(t)));
            for (const TaskId earlier : graph.predecessors(t))
                if (span.start + slack < finish_seen_by(place.rank(), spans_of[earlier]))
                    broken(fmt::format("task {} ({}) starts before its predecessor {} ({}) has finished", t,
                                       graph.name(t), earlier, graph.name(earlier)));
            if (span.start + slack < free[place.index])
                broken(fmt::format("task {} ({}) starts while rank {} {} is busy", t, graph.name(t), place.rank(),
                                   to_string(place.lane())));
            free[place.index] = std::max(free[place.index], span.finish);
        }
        spans_of[t] = std::span(trace.spans).subspan(first, next - first);
    }
    if (next != trace.spans.size())
        broken(fmt::format("{} spans more than the graph has places", trace.spans.size() - next));
}

}  // namespace stepcast
