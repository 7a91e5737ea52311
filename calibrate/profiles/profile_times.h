// What a profile says of times: how the device's time splits, what each product, pass and collective took, and, over several
// ranks, how long a collective transfers and how long it waits. Unions of intervals over all streams throughout.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "calibrate/profiles/profile.h"

namespace stepcast {

// busy = union of everything; exposed = communication that no computation covers; copies count as busy, not as computation.
struct DeviceTimes {
    Seconds span, busy, idle, compute, communication, copies, overlapped, exposed;
    std::map<ProfilePhase, Seconds> phases;  // summed computing kernels by phase
    std::map<ProfilePhase, long> phase_kernels;
    friend bool operator==(const DeviceTimes&, const DeviceTimes&) = default;
};
DeviceTimes device_times(const Profile& profile);

inline Seconds duration(const DeviceSpan& span) { return seconds(span.finish - span.start); }
// From the start of a marked step to that of the next; of the last its own. Which of the job's marked steps it is.
inline Seconds length_of_step(const Profile& p, std::size_t i) {
    return i + 1 < p.steps.size() ? p.steps[i + 1].start - p.steps[i].start : p.steps[i].duration;
}
inline std::size_t number_of_step(const Profile& p, std::size_t i) { return i + static_cast<std::size_t>(p.steps[i].skipped); }

// Whether anything tells which kernels are the backward's; where nothing does, all count as the forward's.
bool tells_phases(const Profile& profile);

// Calls of one operator, sizes and type. `total` is the sum over their kernels, `typical` the median of a call.
struct OperatorTimes {
    OperatorCall call;
    int calls = 0, kernels = 0;
    Seconds total, typical;
    friend bool operator==(const OperatorTimes&, const OperatorTimes&) = default;
};
std::vector<OperatorTimes> operator_times(const Profile& profile);  // longest in all first

// Which kernels of the ranks at hand are one collective: the k-th of their process group (the one of a number, where calls are
// numbered), of sends and receives the k-th of the pair. What only one rank shows, or what cannot be told, is a meeting of one.
struct Meeting {
    Seconds least;                   // the shortest of the kernels
    std::vector<std::size_t> ranks;  // places in the job, ascending
};
struct Meetings {
    std::vector<Meeting> all;
    std::unordered_map<const DeviceSpan*, std::size_t> of;  // of every kernel that communicates
    long untold = 0;  // kernels of groups that several ranks hold, whose calls do not match
};
// Throws ConfigError when calls that must be one collective are of different kinds: files of different jobs.
Meetings meetings_of(const std::vector<Profile>& ranks);

// Calls of one collective and size. `transfer`: the shortest duration of each call over the ranks at hand, its median over the
// calls; a kernel runs from its rank's arrival to the common end, so the rest is waiting for peers. With one rank only an upper
// bound: `ranks_seen` says how many files told it.
struct CollectiveTimes {
    CollectiveCall call;
    int calls = 0, ranks_seen = 1;  // ranks_seen: of those that took part
    Seconds total, least, most, transfer;  // total, least, most over all kernels seen
    Seconds waiting;                       // mean over ranks and calls of what is not transfer
    friend bool operator==(const CollectiveTimes&, const CollectiveTimes&) = default;
};
// Of one rank, or of several of one job.
std::vector<CollectiveTimes> collective_times(const std::vector<Profile>& ranks);

// What makes calls of a collective alike: group, operation, type, ranks and sizes.
inline auto alike(const CollectiveCall& c) { return std::tuple(c.group, c.op, c.dtype, c.ranks, c.in_elements, c.out_elements); }

// The field's name of a recorded collective ("allreduce" -> "all_reduce"), "" when it moves no data or is not known, and its
// payload as nccl-tests counts it: the whole buffer, of an all-gather the result, of a reduce-scatter the input.
std::string collective_kind(const CollectiveCall& call);
Bytes collective_bytes(const CollectiveCall& call);

}  // namespace stepcast
