// The times in a profile: how the device's time divides, how long each product, pass and collective
// took and, with several ranks, how long a collective transfers and how long it waits. Sums over
// streams are unions of intervals.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "import/profiles/profile.h"
#include "model/base/numbers.h"
#include "sim/results/rank_use.h"

namespace stepcast {

// Length of the union of those spans, sorted by start, for which `counts` is true.
auto covered(const auto& spans, const auto& counts) {
    using Time = decltype(spans.front().start);
    Time sum{}, end = spans.empty() ? Time{} : spans.front().start;
    for (const auto& span : spans) {
        if (!counts(span) || span.finish <= end) continue;
        sum += span.finish - std::max(span.start, end);
        end = span.finish;
    }
    return sum;
}

// busy: union of all work. exposed: communication during which nothing computes. Copies count as
// busy, but not as computation.
struct DeviceTimes {
    Seconds span, busy, idle, compute, communication, copies, overlapped, exposed;
    std::map<ProfilePhase, Seconds> phases;  // sums of computing kernels by phase
    friend bool operator==(const DeviceTimes&, const DeviceTimes&) = default;
};
DeviceTimes device_times(const Profile& profile);

// Sums of computing kernels over the time of the profiled steps, or without any over the time from
// the first work to the last: matrix products, fused attention, all others. By the operator that
// launched a kernel where its sizes were recorded, else by the kernel's name.
KernelShares kernel_shares(const Profile& profile);

// Of each step the longest stretch in which the device does nothing, over the step; the median of
// the steps. Empty without steps.
std::optional<double> idle_stretch(const Profile& profile);

inline Seconds duration(const DeviceSpan& span) { return seconds(span.finish - span.start); }

// Length of the i-th step, from its start to the next one's; for the last its own duration. And its
// number among the job's marked steps.
inline Seconds length_of_step(const Profile& p, std::size_t i) {
    return i + 1 < p.steps.size() ? p.steps[i + 1].start - p.steps[i].start : p.steps[i].duration;
}
inline std::size_t number_of_step(const Profile& p, std::size_t i) {
    return i + as_index(p.steps[i].skipped);
}

// Whether anything tells which kernels belong to the backward; if nothing does, all count as
// forward.
bool tells_phases(const Profile& profile);

// All calls of one operator with the same sizes and type. `total`: sum over their kernels,
// `typical`: median over the calls.
struct OperatorTimes {
    OperatorCall call;
    int calls = 0, kernels = 0;
    Seconds total, typical;
    friend bool operator==(const OperatorTimes&, const OperatorTimes&) = default;
};
std::vector<OperatorTimes> operator_times(const Profile& profile);  // longest total first

// Which kernels on the given ranks are the same collective: those of the same number among their
// process group's calls where calls are numbered, else the k-th on each rank; for sends and
// receives the k-th of the pair. A kernel without match is a meeting of one.
struct Meeting {
    Seconds least;                   // duration of the shortest kernel
    std::vector<std::size_t> ranks;  // indices in the job, ascending
};
struct Meetings {
    std::vector<Meeting> all;
    // the meeting of every communicating kernel
    std::unordered_map<const DeviceSpan*, std::size_t> of;
    long untold = 0;  // kernels in groups of several given ranks whose calls do not match
};

// All calls of one collective and size. A kernel runs from its rank's arrival to the common end, so
// the shortest on the given ranks is the transfer and the rest is waiting for peers. `transfer` is
// its median over the calls; with one rank it is only an upper bound.
struct CollectiveTimes {
    CollectiveCall call;
    // ranks_seen: how many of the participating ranks' files are given
    int calls = 0, ranks_seen = 1;
    Seconds total, least, most, transfer;  // total, least and most: over all kernels seen
    // mean over ranks and calls of the time that is not transfer
    Seconds waiting;
    friend bool operator==(const CollectiveTimes&, const CollectiveTimes&) = default;
};

// The key by which calls of a collective count as alike: group, operation, type, ranks and sizes.
inline auto alike(const CollectiveCall& c) {
    return std::tuple(c.group, c.op, c.dtype, c.ranks, c.in_elements, c.out_elements);
}

}  // namespace stepcast
