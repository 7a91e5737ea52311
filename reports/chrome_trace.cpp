#include "reports/chrome_trace.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <nlohmann/json.hpp>

#include "model/errors.h"

namespace stepcast {
namespace {

std::string quoted(std::string_view text) { return nlohmann::json(text).dump(); }

// One event a line, commas between.
class Events {
public:
    explicit Events(std::ostream& out) : out_(out) {}
    template <typename... Args>
    void add(fmt::format_string<Args...> text, Args&&... args) {
        out_ << (first_ ? "" : ",\n");
        first_ = false;
        fmt::print(out_, text, std::forward<Args>(args)...);
    }

private:
    std::ostream& out_;
    bool first_ = true;
};

void add_tracks(Events& events, const TaskGraph& graph, const Trace& trace) {
    std::set<std::uint32_t> used;
    for (const Span& span : trace.spans) used.insert(span.place.index);
    for (int r = 0; r < graph.rank_count(); ++r)
        events.add("{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":\"rank {}\"}}}}", r, r);
    for (const std::uint32_t index : used) {
        const int rank = static_cast<int>(index) / lane_count, lane = static_cast<int>(index) % lane_count;
        const std::string name = quoted(to_string(static_cast<Lane>(lane)));
        events.add("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":{}}}}}", rank, lane, name);
        events.add("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{}}}}}", rank, lane, lane);
    }
}

void add_span(Events& events, const TaskGraph& graph, const Span& span) {
    const Op& op = graph.op(span.task);
    constexpr double microseconds = 1e6;
    events.add("{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{:.4f},\"dur\":{:.4f},\"name\":{},\"cat\":\"{}\",\"args\":{{\"task\":{},\"phase\":\"{}\",\"flops\":{:.9g},\"bytes\":{:.9g}}}}}",
               span.place.rank(), static_cast<int>(span.place.lane()), span.start.si() * microseconds,
               (span.finish - span.start).si() * microseconds, quoted(graph.name(span.task)), kind_name(op), span.task,
               to_string(graph.phase(span.task)), flops_of(op).si(), bytes_moved(op).si());
}

const char* origin_name(Trace::Origin origin) {
    switch (origin) {
        case Trace::Origin::simulated: return "simulated";
        case Trace::Origin::executed: return "executed";
        case Trace::Origin::imported: return "imported";
    }
    return "?";
}

}  // namespace

void write_chrome_trace(const TaskGraph& graph, const Trace& trace, const std::string& path) {
    const std::string half = path + ".part";
    {
        std::ofstream out(half);
        if (!out) throw ConfigError(path + ": cannot be written: " + std::strerror(errno));
        fmt::print(out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"origin\":\"{}\"}},\"traceEvents\":[\n", origin_name(trace.origin));
        Events events(out);
        add_tracks(events, graph, trace);
        for (const Span& span : trace.spans) add_span(events, graph, span);
        out << "\n]}\n";
        out.flush();
        if (!out) {
            std::filesystem::remove(half);
            throw ConfigError(path + ": cannot be written whole: " + std::strerror(errno));
        }
    }
    std::filesystem::rename(half, path);
}

}  // namespace stepcast
