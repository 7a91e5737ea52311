#include "model/graph/trace.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "model/base/numbers.h"

namespace stepcast {
namespace {

[[noreturn]] void broken(std::string what) {
    throw std::logic_error("check_trace: " + std::move(what));
}

// When the rank of `span` knows that the task of `spans` has finished. If the rank took part: its
// own finish (the ranks of an executed collective leave it one after another). Else the finish on
// ranks that also take part in the later task, which waits for their arrival unless it leaves
// early. Else the finish on all ranks.
Seconds finish_seen_by(const Span& span, std::span<const Place> places,
                       std::span<const Span> spans) {
    Seconds own, common, all;
    bool took_part = false, meets = false;
    for (const Span& one : spans) {
        const int rank = one.place.rank();
        all = std::max(all, one.finish);
        if (rank == span.place.rank()) {
            took_part = true;
            own = std::max(own, one.finish);
        } else if (std::any_of(places.begin(), places.end(),
                               [&](const Place& p) { return p.rank() == rank; })) {
            meets = true;
            common = std::max(common, one.finish);
        }
    }
    return took_part ? own : meets ? std::min(common, span.finish) : all;
}

}  // namespace

Seconds step_end(const Trace& trace) {
    Seconds end;
    for (const Span& span : trace.spans) end = std::max(end, span.finish);
    return end;
}

std::string span_mismatch(const TaskGraph& graph, const Trace& trace) {
    std::size_t next = 0;
    for (TaskId t = 0; t < graph.size(); ++t)
        for (const Place& place : graph.places(t)) {
            if (next == trace.spans.size())
                return fmt::format("no span of task {} ({}) on rank {}", t, graph.name(t),
                                   place.rank());
            const Span& span = trace.spans[next++];
            if (span.task != t || !(span.place == place))
                return fmt::format(
                    "span {} is of task {} on rank {}, expected task {} ({}) on rank {}", next - 1,
                    span.task, span.place.rank(), t, graph.name(t), place.rank());
            if (span.finish < span.start)
                return fmt::format("task {} ({}) finishes before it starts", t, graph.name(t));
        }
    return next == trace.spans.size()
               ? ""
               : fmt::format("{} spans more than the graph has places", trace.spans.size() - next);
}

void check_trace(const TaskGraph& graph, const Trace& trace, Seconds slack) {
    if (std::string why = span_mismatch(graph, trace); !why.empty()) broken(std::move(why));
    std::vector<std::span<const Span>> spans_of(graph.size());
    std::vector<Seconds> free(as_index(graph.place_count()));
    std::size_t next = 0;
    for (TaskId t = 0; t < graph.size(); ++t) {
        const std::size_t first = next;
        const std::span<const Place> places = graph.places(t);
        for (const Place& place : places) {
            const Span& span = trace.spans[next++];
            for (const TaskId earlier : graph.predecessors(t))
                if (span.start + slack < finish_seen_by(span, places, spans_of[earlier]))
                    broken(fmt::format(
                        "task {} ({}) starts before its predecessor {} ({}) has finished", t,
                        graph.name(t), earlier, graph.name(earlier)));
            if (span.start + slack < free[place.index])
                broken(fmt::format("task {} ({}) starts while rank {} {} is busy", t, graph.name(t),
                                   place.rank(), to_string(place.lane())));
            free[place.index] = std::max(free[place.index], span.finish);
        }
        spans_of[t] = std::span(trace.spans).subspan(first, next - first);
    }
}

}  // namespace stepcast
