#include "import/profiles/link_records.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "import/profiles/call_contexts.h"
#include "import/profiles/collective_times.h"
#include "import/profiles/profile_times.h"
#include "import/profiles/profiled_steps.h"
#include "import/profiles/trace_records.h"
#include "measured/medians.h"
#include "model/base/lines.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/records/measurements.h"

namespace stepcast {
namespace {

constexpr std::int32_t no_operator = -1;

// Fills the profile. An operator becomes an entry when its first kernel is added.
class Builder {
    using OperatorKey = std::pair<std::uint32_t, std::uint32_t>;  // name, inputs

public:
    Builder(TraceRecords& records, Profile& profile)
        : r_(records), p_(profile), contexts_(call_contexts(records)) {
        call_of_.reserve(r_.calls.size());
        for (std::uint32_t c = 0; c < r_.calls.size(); ++c)
            if (r_.calls[c].correlation != 0) call_of_.push_back(c);
        std::ranges::sort(call_of_, {},
                          [&](std::uint32_t c) { return std::pair(r_.calls[c].correlation, c); });
    }

    void add(const DeviceRecord& record, std::int64_t origin) {
        DeviceSpan span{.start = record.start - origin,
                        .finish = record.finish() - origin,
                        .name = record.name,
                        .stream = record.stream,
                        .kind = record.kind,
                        .collective = record.collective,
                        .bytes = record.bytes};
        if (record.kind == SpanKind::communication) span.instance = record.sequence;
        const bool kernel = span.kind == SpanKind::compute || span.kind == SpanKind::communication;
        if (kernel) ++p_.counts.kernels;
        const auto at =
            std::ranges::lower_bound(call_of_, record.correlation, {},
                                     [&](std::uint32_t c) { return r_.calls[c].correlation; });
        if (at != call_of_.end() && r_.calls[*at].correlation == record.correlation) {
            span.launched = r_.calls[*at].finish() - origin;
            link(span, contexts_[*at], r_.calls[*at].graph);
        } else if (kernel) {
            ++p_.counts.unlinked;
        }
        if (span.kind == SpanKind::communication && span.collective < 0) unsized(span, record.name);
        p_.spans.push_back(span);
    }

private:
    void link(DeviceSpan& span, const CallContext& context, bool graph) {
        span.phase = context.phase;
        if (graph) {
            ++p_.counts.graph_kernels;
            return;
        }
        if (span.kind == SpanKind::communication && span.collective < 0 && context.exchange >= 0)
            span.collective = entry(context.exchange, exchanges_, p_.collectives, collective_of);
        if (span.kind != SpanKind::compute) return;
        span.instance = context.work;
        if (context.work >= 0)
            span.sized = entry(context.work, operators_, p_.operators, sized_operator);
        if (context.product && span.sized < 0) ++p_.counts.products_without_shape;
    }
    // A collective of unknown size: it gets its kernel's name.
    void unsized(DeviceSpan& span, std::uint32_t name) {
        ++p_.counts.collectives_without_size;
        const auto [at, fresh] =
            unsized_.try_emplace(name, static_cast<std::int32_t>(p_.collectives.size()));
        span.collective = at->second;
        if (!fresh) return;
        std::string_view kernel = r_.names[name];
        if (kernel.starts_with("void ")) kernel.remove_prefix(5);
        CollectiveCall call;
        call.op = kernel.substr(0, kernel.find_first_of("(<"));
        p_.collectives.push_back(call);
    }
    // The index of what the operator of a host span computes; all calls with the same inputs share
    // one entry.
    template <typename Calls, typename Make>
    std::int32_t entry(std::int32_t host, std::map<OperatorKey, std::int32_t>& known, Calls& calls,
                       Make make) {
        const HostSpan& span = r_.host[as_index(host)];
        const auto [at, fresh] = known.try_emplace({span.name, span.inputs}, no_operator);
        if (!fresh) return at->second;
        if (auto call = make(r_.names[span.name], r_.operator_inputs[span.inputs])) {
            at->second = static_cast<std::int32_t>(calls.size());
            calls.push_back(*std::move(call));
        }
        return at->second;
    }

    TraceRecords& r_;
    Profile& p_;
    std::vector<CallContext> contexts_;
    std::vector<std::uint32_t> call_of_;  // by correlation
    std::map<OperatorKey, std::int32_t> operators_, exchanges_;
    std::map<std::uint32_t, std::int32_t> unsized_;
};

// The number behind the word in "rank-3.json.gz", "rank3_trace.json", "worker3..".
int rank_in_name(const std::string& path) {
    const std::string name = std::filesystem::path(path).filename().string();
    for (const char* word : {"rank", "worker"}) {
        const std::size_t at = name.find(word);
        if (at == std::string::npos) continue;
        const std::size_t digits = name.find_first_of("0123456789", at);
        int rank = -1;
        if (digits != std::string::npos && digits <= at + 7)
            std::from_chars(name.data() + digits, name.data() + name.size(), rank);
        if (rank >= 0) return rank;
    }
    return -1;
}

// Keeps the records of the device that worked longest and drops those of the others.
std::uint32_t keep_one_device(TraceRecords& records, Profile& profile) {
    std::unordered_map<std::uint32_t, std::int64_t> busy;
    for (const DeviceRecord& d : records.device) busy[d.device] += d.length.ns() + 1;
    const auto most = std::max_element(busy.begin(), busy.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second, b.first) < std::pair(b.second, a.first);
    });
    const std::uint32_t device = most->first;
    profile.counts.other_devices = static_cast<long>(busy.size()) - 1;
    if (busy.size() > 1)
        records.device.erase(
            std::remove_if(records.device.begin(), records.device.end(),
                           [&](const DeviceRecord& d) { return d.device != device; }),
            records.device.end());
    return device;
}

// The model's layer: among the module classes with several instances, the one whose calls took
// longest in total.
ProfiledLayer layer_of(const TraceRecords& records) {
    ProfiledLayer layer;
    double longest = 0;
    for (const auto& [name, spans] : records.modules) {
        const double total = std::accumulate(spans.seconds.begin(), spans.seconds.end(), 0.0);
        if (spans.instances.size() < 2 || total <= longest) continue;
        longest = total;
        std::vector<double> each(spans.seconds.begin(), spans.seconds.end());
        layer = {name, as_int(spans.instances.size()), static_cast<long>(each.size()),
                 Seconds(median(each))};
    }
    return layer;
}

void add_notes(const TraceRecords& records, Profile& p) {
    const auto note = [&](long count, const std::string& what) {
        if (count > 0) add_line(p.notes, "{} {}", count, what);
    };
    if (!p.broken.empty())
        p.notes.push_back("the trace is not whole: " + p.broken +
                          "; what was read up to there is kept");
    if (p.shortened)
        add_line(
            p.notes,
            "the trace holds more than fits the bound of memory; only its first {:.3f} s are kept",
            real(records.window_end - records.first) * 1e-9);
    note(p.counts.dropped,
         "events are no valid JSON, or have no time in microseconds, and are passed over");
    note(p.counts.unlinked,
         "kernels were launched before the window or by a thread that was not profiled (phase "
         "unlinked)");
    note(records.untimed, "pieces of the GPU's work have no duration: they count as nothing");
    note(records.begins_and_ends,
         "events are a begin and an end (ph B, E), which is not read: only whole ones (X) are");
    note(records.whole_graphs,
         "launches of CUDA graphs are recorded as one piece each: what computes and what "
         "communicates inside is unknown (nsys profile --cuda-graph-trace=node)");
    note(p.counts.graph_kernels, "kernels come from CUDA or HIP graphs: no operator, no shapes");
    note(p.counts.products_without_shape, "GEMM kernels without recorded shapes");
    note(p.counts.collectives_without_size, "communication kernels without operation or size");
    note(records.nccl_payloads,
         "ranges of NCCL state bytes and ranks in binary NVTX payloads, whose layout in Nsight's "
         "exports is not documented: not read (PyTorch's profiler and nccl-tests have them)");
    if (records.processes > 1)
        add_line(p.notes,
                 "one of {} processes of the export; the export names no ranks, they are "
                 "counted by device and process id",
                 records.processes);
    if (records.names.full() || records.inputs.full())
        p.notes.push_back(
            "the trace holds more names than fit the bound of memory; the rest count as one");
    note(p.counts.other_devices,
         "further devices in the trace; the one that worked longest is taken");
    if (!p.shapes)
        p.notes.push_back(
            "no shapes recorded: sizes of kernels are unknown (profile with record_shapes=True)");
    if (!tells_phases(p))
        p.notes.push_back(
            "no operator or range marks the backward: no rows of forward, backward and optimizer");
    else if (std::ranges::none_of(
                 p.spans, [](const DeviceSpan& s) { return s.phase == ProfilePhase::optimizer; }))
        p.notes.push_back(
            "no range marks the optimizer: where one ran, its kernels count as the forward's");
    if (records.steps.empty())
        p.notes.push_back("no ProfilerStep: no step times, the whole window is one piece");
}

void add_calls(const TraceRecords& records, std::int64_t origin, Profile& p) {
    for (const DriverCall& call : records.calls) {
        if (call.launches) p.launches.push_back(seconds(call.length.ns()));
        if (call.waits) p.waits.push_back({call.start - origin, call.finish() - origin});
    }
    std::ranges::sort(p.waits, {}, &HostWait::start);
}

void sort_memory(std::int64_t origin, Profile& p) {
    for (ProfiledMemory& point : p.memory) point.time -= origin;
    std::ranges::sort(p.memory, {}, &ProfiledMemory::time);
}

}  // namespace

Profile link_records(TraceRecords records, const std::string& path) {
    Profile p = std::move(records.profile);
    p.path = path;
    if (records.device.empty())
        refuse("{}: {} events, {}; expected a trace with the GPU's activity{}", path,
               p.counts.events,
               records.of_xla
                   ? "whose processes are devices of XLA (JAX's profiler), which is not read"
               : p.counts.dropped > 0
                   ? fmt::format("of which {} are no valid JSON or have no time in microseconds, "
                                 "and none of the others work on a GPU",
                                 p.counts.dropped)
                   : "none of them work on a GPU",
               p.broken.empty() ? "" : " (" + p.broken + ")");
    if (records.untimed == 0 && std::ranges::all_of(records.device, [](const DeviceRecord& d) {
            return d.length.ns() == 0;
        }))
        refuse(
            "{}: {} pieces of work on the GPU, none of which lasts a nanosecond; expected times in "
            "microseconds",
            path, records.device.size());
    const std::uint32_t device = keep_one_device(records, p);
    if (const auto known = value_in(records.devices, device)) p.device = *known;
    p.rank = records.rank >= 0 ? records.rank : records.processes > 1 ? -1 : rank_in_name(path);
    p.rank_told = p.rank >= 0;
    p.rank = std::max(p.rank, 0);
    std::sort(records.device.begin(), records.device.end(),
              [](const DeviceRecord& a, const DeviceRecord& b) {
                  return std::tuple(a.start, a.length.ns(), a.stream, a.correlation) <
                         std::tuple(b.start, b.length.ns(), b.stream, b.correlation);
              });
    const std::int64_t origin = records.device.front().start;
    Builder builder(records, p);
    // frees each record when it is linked
    for (; !records.device.empty(); records.device.pop_front())
        builder.add(records.device.front(), origin);
    // on an empty container Boost 1.74's clear() increments a null pointer
    if (!records.host.empty()) records.host.clear();
    for (CollectiveCall& call : p.collectives) {
        if (const auto known = value_in(records.groups, call.group); call.members.empty() && known)
            call.members = *known;
        if (collective_kind(call) == "send_recv")
            tell_pair(call, p.rank_told ? p.rank : -1, p.ranks);
    }
    add_calls(records, origin, p);
    p.origin = origin + records.base;
    sort_memory(origin, p);
    p.layer = layer_of(records);
    p.node_devices = as_int(records.devices.size());
    add_notes(records, p);
    add_steps(records, origin, p);
    p.names = records.names.take();
    return p;
}

}  // namespace stepcast
