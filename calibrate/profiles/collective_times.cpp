#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "calibrate/profiles/operators.h"
#include "calibrate/profiles/profile_times.h"
#include "model/errors.h"
#include "model/records/measurements.h"

namespace stepcast {
namespace {

Seconds duration(const DeviceSpan& span) { return Seconds(static_cast<double>(span.finish - span.start) * 1e-9); }

const CollectiveCall& call_of(const Profile& p, const DeviceSpan& span) {
    return p.collectives[static_cast<std::size_t>(span.collective)];
}

// Communication of one rank by process group, in the order of time. A rank's group that no file names is one sequence.
using Sequence = std::vector<const DeviceSpan*>;
std::map<std::string, Sequence> sequences(const Profile& p) {
    std::map<std::string, Sequence> groups;
    for (const DeviceSpan& span : p.spans)
        if (span.kind == SpanKind::communication && span.collective >= 0)
            groups[call_of(p, span).group].push_back(&span);
    return groups;
}

// Whether the k-th calls of two ranks can be one collective: the same operation and type (sizes may differ in an all-to-all).
bool agree(const CollectiveCall& a, const CollectiveCall& b) { return a.op == b.op && a.dtype == b.dtype; }

// Shortest duration of each call over the ranks, for the groups that all ranks hold alike.
std::map<const DeviceSpan*, Seconds> transfers(const std::vector<Profile>& ranks) {
    std::map<const DeviceSpan*, Seconds> shortest;
    std::vector<std::map<std::string, Sequence>> of_rank;
    of_rank.reserve(ranks.size());
    for (const Profile& p : ranks) of_rank.push_back(sequences(p));
    for (const auto& [group, first] : of_rank.front()) {
        for (std::size_t k = 0; k < first.size(); ++k) {
            std::vector<const DeviceSpan*> together;
            for (std::size_t r = 0; r < ranks.size(); ++r) {
                const auto at = of_rank[r].find(group);
                if (at == of_rank[r].end() || at->second.size() != first.size() ||
                    !agree(call_of(ranks[r], *at->second[k]), call_of(ranks.front(), *first[k])))
                    throw ConfigError(fmt::format(
                        "{}: call {} of process group \"{}\" is not that of {}; expected traces of one job, the same steps",
                        ranks[r].path, k, group, ranks.front().path));
                together.push_back(at->second[k]);
            }
            Seconds least = duration(*together.front());
            for (const DeviceSpan* span : together) least = std::min(least, duration(*span));
            for (const DeviceSpan* span : together) shortest[span] = least;
        }
    }
    return shortest;
}

struct Kind {
    std::string_view recorded, kind;
};
constexpr std::array kinds = {Kind{"allreduce", "all_reduce"},
                              Kind{"all_reduce", "all_reduce"},
                              Kind{"allreduce_coalesced", "all_reduce"},
                              Kind{"_allgather_base", "all_gather"},
                              Kind{"all_gather", "all_gather"},
                              Kind{"_all_gather_base", "all_gather"},
                              Kind{"all_gather_into_tensor_coalesced", "all_gather"},
                              Kind{"allgather_into_tensor_coalesced", "all_gather"},
                              Kind{"_reduce_scatter_base", "reduce_scatter"},
                              Kind{"reduce_scatter", "reduce_scatter"},
                              Kind{"reduce_scatter_tensor_coalesced", "reduce_scatter"},
                              Kind{"all_to_all", "all_to_all"},
                              Kind{"all_to_allv", "all_to_all"},
                              Kind{"broadcast", "broadcast"},
                              Kind{"_broadcast_oop", "broadcast"},
                              Kind{"reduce", "reduce"},
                              Kind{"send", "send_recv"},
                              Kind{"recv", "send_recv"}};

}  // namespace

std::string collective_kind(const CollectiveCall& call) {
    for (const Kind& k : kinds)
        if (k.recorded == call.op) return std::string(k.kind);
    return "";
}

// From an operator's inputs only what this rank puts in is known; an all-gather's result is then that of all ranks.
Bytes collective_bytes(const CollectiveCall& call) {
    double elements = call.in_elements;
    if (collective_kind(call) == "all_gather")
        elements = call.from_kernel ? call.out_elements : call.in_elements * call.ranks;
    if (call.op == "recv") elements = call.out_elements;
    return Bytes(elements * element_bytes(call.dtype));
}

std::vector<CollectiveTimes> collective_times(const std::vector<Profile>& ranks) {
    if (ranks.empty()) return {};
    const auto shortest = transfers(ranks);
    struct Sum {
        CollectiveTimes times;
        int kernels = 0;
        std::vector<double> transfer;
    };
    std::map<std::tuple<std::string, std::string, std::string, int, double, double>, Sum> sums;
    for (const Profile& p : ranks)
        for (const DeviceSpan& span : p.spans) {
            if (span.kind != SpanKind::communication || span.collective < 0) continue;
            const CollectiveCall& call = call_of(p, span);
            Sum& sum = sums[{call.group, call.op, call.dtype, call.ranks, call.in_elements, call.out_elements}];
            CollectiveTimes& t = sum.times;
            const Seconds time = duration(span);
            if (sum.kernels++ == 0) {
                t.call = call;
                t.least = t.most = time;
            }
            t.least = std::min(t.least, time);
            t.most = std::max(t.most, time);
            t.total += time;
            t.waiting += time - shortest.at(&span);
            if (&p == &ranks.front() || ranks.size() == 1) sum.transfer.push_back(shortest.at(&span).si());
        }
    std::vector<CollectiveTimes> all;
    for (auto& [_, sum] : sums) {
        CollectiveTimes& t = sum.times;
        t.ranks_seen = static_cast<int>(ranks.size());
        t.calls = std::max(1, static_cast<int>(sum.transfer.size()));
        t.transfer = sum.transfer.empty() ? t.least : Seconds(median(sum.transfer));
        t.waiting = t.waiting / sum.kernels;
        all.push_back(t);
    }
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.total > b.total; });
    return all;
}

}  // namespace stepcast
