#include "import/profiles/collective_times.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "import/profiles/operators.h"
#include "import/profiles/profile_times.h"
#include "measured/medians.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/refuse.h"
#include "model/records/measurements.h"

namespace stepcast {
namespace {

const CollectiveCall& call_of(const Profile& p, const DeviceSpan& span) {
    return p.collectives[as_index(span.collective)];
}

bool is_point_to_point(const CollectiveCall& call) { return collective_kind(call) == "send_recv"; }

// The name of the sequence that a kernel belongs to: the group and its members, for sends and
// receives also the pair. If the pair is unknown, the sequence belongs to this rank alone.
std::string sequence_of(const CollectiveCall& call, std::size_t rank) {
    std::string group = call.group + call.members;
    if (!is_point_to_point(call)) return group;
    if (call.source < 0 || call.target < 0) return fmt::format("{} of rank {} alone", group, rank);
    return fmt::format("{} {}>{}", group, call.source, call.target);
}

using Sequence = std::vector<const DeviceSpan*>;  // by time

// Whether the k-th calls of two ranks can be the same collective: same operation and type (sizes
// may differ in an all-to-all).
bool agree(const CollectiveCall& a, const CollectiveCall& b) {
    const std::string kind = collective_kind(a);
    return (a.op == b.op || (!kind.empty() && kind == collective_kind(b))) && a.dtype == b.dtype;
}

// Matches the kernels of one sequence on the ranks that have it.
class Matching {
public:
    Matching(const std::vector<Profile>& job, Meetings& meetings)
        : job_(job), meetings_(meetings) {}

    void match(const std::map<std::size_t, Sequence>& held) {
        const auto& [first_rank, first] = *held.begin();
        const CollectiveCall& call = call_of(job_[first_rank], *first.front());
        if (!call.group.empty() && !is_point_to_point(call) && numbered(held))
            return by_number(held);
        const auto calls_of = [](const auto& of_rank) { return of_rank.second.size(); };
        const std::size_t most = calls_of(*std::ranges::max_element(held, {}, calls_of));
        const bool cut = std::ranges::all_of(held, [&](const auto& of_rank) {
            // ranks with fewer calls are fine if their file breaks off
            const Profile& p = job_[of_rank.first];
            return calls_of(of_rank) == most || p.shortened || !p.broken.empty();
        });
        const std::size_t common =
            cut ? agreeing(held, calls_of(*std::ranges::min_element(held, {}, calls_of))) : 0;
        for (std::size_t k = 0; k < common; ++k) {
            std::vector<std::pair<std::size_t, const DeviceSpan*>> together;
            for (const auto& [rank, calls] : held) together.emplace_back(rank, calls[k]);
            meet(together);
        }
        for (const auto& [rank, calls] : held)
            for (std::size_t k = common; k < calls.size(); ++k) {
                meet({{rank, calls[k]}});
                if (held.size() > 1) ++meetings_.untold;
            }
    }

private:
    // `count` if so many calls of every rank are those of the first rank, else 0. Throws
    // ConfigError where the traces tell which process group it is.
    std::size_t agreeing(const std::map<std::size_t, Sequence>& held, std::size_t count) const {
        const auto& [first_rank, first] = *held.begin();
        const CollectiveCall& call = call_of(job_[first_rank], *first.front());
        for (std::size_t k = 0; k < count; ++k)
            for (const auto& [rank, calls] : held) {
                if (agree(call_of(job_[rank], *calls[k]), call_of(job_[first_rank], *first[k])))
                    continue;
                if (call.group.empty()) return 0;
                refuse(
                    "{}: call {} of process group \"{}\" is not that of {}; "
                    "expected traces of one job, the same steps",
                    job_[rank].path, k, call.group, job_[first_rank].path);
            }
        return count;
    }
    // Whether every kernel has a number that is unique on its rank.
    static bool numbered(const std::map<std::size_t, Sequence>& held) {
        return std::ranges::all_of(held, [](const auto& of_rank) {
            std::set<std::int32_t> seen;
            return std::ranges::all_of(of_rank.second, [&](const DeviceSpan* s) {
                return s->instance >= 0 && seen.insert(s->instance).second;
            });
        });
    }
    void by_number(const std::map<std::size_t, Sequence>& held) {
        std::map<std::int32_t, std::vector<std::pair<std::size_t, const DeviceSpan*>>> calls;
        for (const auto& [rank, sequence] : held)
            for (const DeviceSpan* span : sequence) calls[span->instance].emplace_back(rank, span);
        for (const auto& [_, together] : calls) meet(together);
    }
    void meet(const std::vector<std::pair<std::size_t, const DeviceSpan*>>& together) {
        Meeting meeting{duration(*together.front().second), {}};
        for (const auto& [rank, span] : together) {
            meeting.least = std::min(meeting.least, duration(*span));
            meeting.ranks.push_back(rank);
            meetings_.of[span] = meetings_.all.size();
        }
        meetings_.all.push_back(std::move(meeting));
    }

    const std::vector<Profile>& job_;
    Meetings& meetings_;
};

// Sums over similar calls.
struct AlikeCalls {
    CollectiveTimes times;
    int kernels = 0;
    std::size_t seen = 0;          // ranks of the largest meeting
    std::vector<double> transfer;  // of meetings with so many ranks
};

void add(AlikeCalls& sum, const CollectiveCall& call, const DeviceSpan& span,
         const Meeting& meeting, std::size_t rank) {
    CollectiveTimes& t = sum.times;
    const Seconds time = duration(span);
    if (sum.kernels++ == 0) {
        t.call = call;
        t.least = t.most = time;
    }
    t.least = std::min(t.least, time);
    t.most = std::max(t.most, time);
    t.total += time;
    t.waiting += time - meeting.least;
    if (meeting.ranks.front() != rank) return;  // count a meeting once
    ++t.calls;
    if (meeting.ranks.size() > sum.seen) sum.transfer.clear();
    sum.seen = std::max(sum.seen, meeting.ranks.size());
    if (meeting.ranks.size() == sum.seen) sum.transfer.push_back(meeting.least.si());
}

}  // namespace

// PyTorch has several names for an operation: c10d's "allreduce_" and "_allgather_base",
// "all_gather_into_tensor_coalesced", NCCL's "send 0->1".
std::string collective_kind(const CollectiveCall& call) {
    using Kind = std::pair<std::string_view, std::string_view>;
    constexpr std::array kinds{Kind{"allreduce", "all_reduce"},
                               Kind{"all_reduce", "all_reduce"},
                               Kind{"allgather", "all_gather"},
                               Kind{"all_gather", "all_gather"},
                               Kind{"reduce_scatter", "reduce_scatter"},
                               Kind{"alltoall", "all_to_all"},
                               Kind{"all_to_all", "all_to_all"},
                               Kind{"all_to_allv", "all_to_all"},
                               Kind{"broadcast", "broadcast"},
                               Kind{"reduce", "reduce"},
                               Kind{"send_recv", "send_recv"},
                               Kind{"send", "send_recv"},
                               Kind{"recv", "send_recv"}};
    std::string_view op = call.op;
    op = op.substr(0, op.find(' '));
    if (op.starts_with('_')) op.remove_prefix(1);
    if (op.ends_with('_')) op.remove_suffix(1);
    for (const std::string_view form :
         {"_coalesced", "_into_tensor", "_tensor", "_base", "_single", "_oop"})
        if (op.ends_with(form)) op.remove_suffix(form.size());
    const auto* const kind = std::ranges::find(kinds, op, &Kind::first);
    return kind == kinds.end() ? "" : std::string(kind->second);
}

Meetings meetings_of(const std::vector<Profile>& ranks) {
    std::map<std::string, std::map<std::size_t, Sequence>> held;  // by sequence, by rank
    for (const std::size_t r : indices_of(ranks))
        for (const DeviceSpan& span : ranks[r].spans)
            if (span.kind == SpanKind::communication && span.collective >= 0)
                held[sequence_of(call_of(ranks[r], span), r)][r].push_back(&span);
    Meetings meetings;
    Matching matching(ranks, meetings);
    for (const auto& [_, of_ranks] : held) matching.match(of_ranks);
    return meetings;
}

// An operator's inputs tell only this rank's contribution; the result of an all-gather has those of
// all ranks.
Bytes collective_bytes(const CollectiveCall& call) {
    double elements = call.in_elements;
    if (collective_kind(call) == "all_gather")
        elements = call.from_kernel ? call.out_elements : call.in_elements * call.ranks;
    if (call.op == "recv") elements = call.out_elements;
    return Bytes(elements * element_bytes(call.dtype));
}

std::vector<CollectiveTimes> collective_times(const std::vector<Profile>& ranks) {
    if (ranks.empty()) return {};
    const Meetings meetings = meetings_of(ranks);
    std::map<decltype(alike(CollectiveCall())), AlikeCalls> sums;
    for (const std::size_t r : indices_of(ranks))
        for (const DeviceSpan& span : ranks[r].spans) {
            if (span.kind != SpanKind::communication || span.collective < 0) continue;
            const CollectiveCall& call = call_of(ranks[r], span);
            add(sums[alike(call)], call, span, meetings.all[meetings.of.at(&span)], r);
        }
    std::vector<CollectiveTimes> all;
    for (auto& [_, sum] : sums) {
        CollectiveTimes& t = sum.times;
        t.ranks_seen = as_int(std::max<std::size_t>(1, sum.seen));
        t.calls = std::max(1, t.calls);
        t.transfer = sum.transfer.empty() ? t.least : Seconds(median(sum.transfer));
        t.waiting = t.waiting / sum.kernels;
        all.push_back(t);
    }
    std::ranges::stable_sort(all, std::ranges::greater{}, &CollectiveTimes::total);
    return all;
}

}  // namespace stepcast
