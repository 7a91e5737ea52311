#include "reports/chrome_trace.h"

#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "model/base/lists.h"
#include "model/base/names.h"
#include "model/base/numbers.h"
#include "model/base/whole_files.h"

namespace stepcast {

namespace {

std::string quoted(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Writes one event per line, with commas between, and buffers a limited amount of text whatever the
// trace's length.
class Events {
public:
    explicit Events(WholeFile& out) : out_(out) {}
    template <typename... Args>
    void add(fmt::format_string<Args...> text, Args&&... args) {
        if (!first_) fmt::format_to(std::back_inserter(text_), ",\n");
        first_ = false;
        fmt::format_to(std::back_inserter(text_), text, std::forward<Args>(args)...);
        constexpr std::size_t buffered = 1000000;
        if (text_.size() > buffered) write();
    }
    void write() {
        out_.write({text_.data(), text_.size()});
        text_.clear();
    }

private:
    WholeFile& out_;
    fmt::memory_buffer text_;
    bool first_ = true;
};

// The sizes of an op as additional members of an event's args.
struct OpSizes {
    std::string operator()(const Gemm& op) const {
        return fmt::format(",\"m\":{},\"n\":{},\"k\":{},\"batch\":{},\"dtype\":\"{}\"", op.m, op.n,
                           op.k, op.batch, to_string(op.dtype));
    }
    std::string operator()(const GroupedGemm& op) const {
        return fmt::format(
            ",\"groups\":{},\"rows\":{},\"n\":{},\"k\":{},\"dtype\":\"{}\",\"weight_gradient\":{}",
            op.rows.size(), std::accumulate(op.rows.begin(), op.rows.end(), 0L), op.n, op.k,
            to_string(op.dtype), op.weight_gradient);
    }
    std::string operator()(const FusedGemm& op) const {
        return fmt::format(
            ",\"blocks\":{},\"remote_blocks\":{},\"rows_per_block\":{},\"n\":{},\"k\":{},\"dtype\":"
            "\"{}\",\"transfer\":"
            "\"{}\"",
            op.blocks, op.remote_blocks, op.rows_per_block, op.n, op.k, to_string(op.dtype),
            op.transfer == FusedGemm::Transfer::gather ? "gather" : "scatter");
    }
    std::string operator()(const Attention& op) const {
        return fmt::format(
            ",\"batch\":{},\"heads\":{},\"seq_q\":{},\"seq_k\":{},\"head_dim\":{},\"dtype\":\"{}\"",
            op.batch, op.heads, op.seq_q, op.seq_k, op.head_dim, to_string(op.dtype));
    }
    std::string operator()(const MemoryPass& op) const {
        return fmt::format(",\"read_bytes\":{:.0f},\"written_bytes\":{:.0f}", op.read.si(),
                           op.written.si());
    }
    std::string operator()(const SendRecv& op) const {
        return fmt::format(",\"bytes\":{:.0f},\"messages\":{}", op.bytes.si(), op.messages);
    }
    std::string operator()(const AllToAll& op) const {
        return fmt::format(",\"bytes\":{:.0f}", bytes_moved(op).si());
    }
    std::string operator()(const HostWork& op) const {
        return fmt::format(",\"work\":\"{}\",\"calls\":{:g}", to_string(op.kind), op.calls);
    }
    std::string operator()(const Barrier&) const { return ""; }
    std::string operator()(
        const OneOf<AllReduce, AllGather, ReduceScatter, Broadcast, Reduce> auto& op) const {
        return fmt::format(",\"bytes\":{:.0f}", op.bytes.si());
    }
};

void add_tracks(Events& events, const TaskGraph& graph, const Trace& trace,
                const std::string& prefix) {
    for (int r = 0; r < graph.rank_count(); ++r) {
        const auto at = as_index(r);
        const int stands_for = at < graph.multiplicity().size() ? graph.multiplicity()[at] : 1;
        const std::string name =
            prefix + (stands_for == 1 ? fmt::format("rank {}", r)
                                      : fmt::format("rank {} (stands for {})", r, stands_for));
        events.add(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":"{}"}}}})", r,
                   name);
        events.add(
            R"({{"ph":"M","pid":{},"name":"process_sort_index","args":{{"sort_index":{}}}}})", r,
            r);
    }
    std::set<std::uint32_t> used;
    for (const Span& span : trace.spans) used.insert(span.place.index);
    for (const std::uint32_t index : used) {
        const int rank = as_int(index) / lane_count, lane = as_int(index) % lane_count;
        events.add(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"{}"}}}})",
                   rank, lane, to_string(static_cast<Lane>(lane)));
        events.add(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index")"
                   R"(,"args":{{"sort_index":{}}}}})",
                   rank, lane, lane);
    }
}

constexpr double microseconds = 1e6;

// ,"micro_batch":3,"layer":7 where known.
std::string label_text(int micro_batch, int layer) {
    std::string text;
    if (micro_batch >= 0) text += fmt::format(",\"micro_batch\":{}", micro_batch);
    if (layer >= 0) text += fmt::format(",\"layer\":{}", layer);
    return text;
}

void add_spans(Events& events, const TaskGraph& graph, const Trace& trace) {
    std::unordered_map<const char*, std::string> names;  // graphs share the text of equal names
    for (const Span& span : trace.spans) {
        if (!std::isfinite(span.start.si()) || !std::isfinite(span.finish.si()))
            throw std::logic_error(
                fmt::format("write_chrome_trace: task {} ({}) has no finite time", span.task,
                            graph.name(span.task)));
        const auto [name, fresh] = names.try_emplace(graph.name(span.task).data());
        if (fresh) name->second = quoted(graph.name(span.task));
        const Op& op = graph.op(span.task);
        const TaskLabel& label = graph.label(span.task);
        events.add(R"({{"ph":"X","pid":{},"tid":{},"ts":{:.4f},"dur":{:.4f},"name":{},"cat":"{}")"
                   R"(,"args":{{"task":{},"phase":"{}"{}{}}}}})",
                   span.place.rank(), as_int(span.place.lane()), span.start.si() * microseconds,
                   (span.finish - span.start).si() * microseconds, name->second, kind_name(op),
                   span.task, to_string(graph.phase(span.task)), std::visit(OpSizes{}, op),
                   label_text(label.micro_batch, label.layer));
    }
}

// Adds arrows from the sending to the receiving rank. A flow event binds to the slice that contains
// its time.
void add_flows(Events& events, const TaskGraph& graph, const Trace& trace) {
    std::unordered_map<TaskId, const Span*> sent;
    for (const Span& span : trace.spans) {
        if (!std::holds_alternative<SendRecv>(graph.op(span.task)) ||
            graph.places(span.task).size() != 2)
            continue;
        const bool sends = graph.places(span.task)[0] == span.place;
        if (sends) {
            sent[span.task] = &span;
            continue;
        }
        const auto from = value_in(sent, span.task);
        if (!from) continue;
        const auto end = [&](const char* kind, const char* binding, const Span& s) {
            events.add(R"({{"ph":"{}","id":{},"pid":{},"tid":{},"ts":{:.4f},"name":"stage")"
                       R"(,"cat":"send_recv"{}}})",
                       kind, span.task, s.place.rank(), as_int(s.place.lane()),
                       (s.start + (s.finish - s.start) / 2).si() * microseconds, binding);
        };
        end("s", "", **from);
        end("f", ",\"bp\":\"e\"", span);
    }
}

void add_memory(Events& events, const std::vector<MemoryPoint>& memory) {
    for (const MemoryPoint& point : memory)
        events.add(R"({{"ph":"C","pid":{},"ts":{:.4f},"name":"memory","args":{{"bytes":{:.0f}}}}})",
                   point.rank, point.time.si() * microseconds, point.in_use.si());
}

void add_traced(Events& events, const TracedSlices& traced) {
    for (const auto& [process, name] : traced.processes) {
        events.add(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", process,
                   stepcast::quoted(name));
        events.add(
            R"({{"ph":"M","pid":{},"name":"process_sort_index","args":{{"sort_index":{}}}}})",
            process, process);
    }
    std::set<std::pair<int, int>> tracks;
    for (const TracedSlice& s : traced.slices) tracks.emplace(s.process, s.track);
    for (const auto& [process, track] : tracks)
        events.add(
            R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"stream {}"}}}})",
            process, track, track);
    for (const TracedSlice& s : traced.slices)
        events.add(R"({{"ph":"X","pid":{},"tid":{},"ts":{:.4f},"dur":{:.4f},"name":{},"cat":"{}")"
                   R"(,"args":{{"phase":"{}"{}}}}})",
                   s.process, s.track, s.start.si() * microseconds, s.length.si() * microseconds,
                   stepcast::quoted(s.name), s.kind, s.phase, label_text(s.micro_batch, s.layer));
    add_memory(events, traced.memory);
}

void write_events(WholeFile& out, const TaskGraph& graph, const Trace& trace,
                  const TraceExtras& extras) {
    std::string head = fmt::format(R"({{"displayTimeUnit":"ms","otherData":{{"origin":"{}")",
                                   to_string(trace.origin));
    for (const auto& [name, value] : extras.notes)
        head += ',' + stepcast::quoted(name) + ':' + stepcast::quoted(value);
    out.write(head + "},\"traceEvents\":[\n");
    Events events(out);
    add_tracks(events, graph, trace, extras.prefix);
    add_spans(events, graph, trace);
    add_flows(events, graph, trace);
    add_memory(events, extras.memory);
    add_traced(events, extras.traced);
    events.write();
    out.write("\n]}\n");
}

}  // namespace

TraceNotes trace_notes(const Forecast& f) {
    return {{"experiment", f.experiment},
            {"cluster", f.cluster},
            {"step_s", fmt::format("{}", f.step.p50.si())},
            {"draw", fmt::format("{} of {}", f.median_draw + 1, f.draws)},
            {"noise", f.noise ? "as drawn" : "none"}};
}

TraceNotes trace_notes(const std::string& experiment, const Measurement& measurement) {
    return {
        {"experiment", experiment},
        {"device", measurement.device},
        {"step_s", fmt::format("{}", measurement.steps.back().times.step.si())},
        {"sample", fmt::format("{} of {}", measurement.steps.size(), measurement.steps.size())}};
}

void write_chrome_trace(const TaskGraph& graph, const Trace& trace, const std::string& path,
                        const TraceExtras& extras) {
    WholeFile out(path);
    write_events(out, graph, trace, extras);
    out.commit();
}

}  // namespace stepcast
