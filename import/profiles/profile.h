// A profiler's trace of one rank as plain values: what ran on the device, for which operator, in
// which phase, and what it cost the host. Readers: kineto.cpp (PyTorch's profiler), nsight.cpp
// (Nsight Systems). Tables are made from it in profile_tables.cpp.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "model/base/names.h"
#include "model/base/numbers.h"
#include "model/base/units.h"
#include "model/graph/op.h"

namespace stepcast {

// The phase of a kernel, from the operators around the call that launched it. `unlinked`: launched
// before the trace begins, or by a thread that was not profiled; its time belongs to another step.
NAMED_ENUM(ProfilePhase, "a phase of a profile", forward, backward, recompute, optimizer, unlinked);

enum class SpanKind : std::uint8_t { compute, communication, copy, set };

// no launching call is known
inline constexpr std::int64_t not_launched = std::numeric_limits<std::int64_t>::min();

inline Seconds seconds(std::int64_t ns) { return Seconds(real(ns) * 1e-9); }

// One piece of work on the device. Times are nanoseconds since the first device activity of the
// trace.
struct DeviceSpan {
    std::int64_t start = 0, finish = 0;
    std::int64_t launched = not_launched;  // end of the call that launched it
    std::uint32_t name = 0;                // index into Profile::names
    std::uint32_t stream = 0;
    SpanKind kind = SpanKind::compute;
    ProfilePhase phase = ProfilePhase::unlinked;
    // the same for all kernels of one call of an operator; for a collective its number
    std::int32_t instance = -1;
    // among the calls of its group, where recorded
    std::int32_t sized = -1;       // index into Profile::operators
    std::int32_t collective = -1;  // index into Profile::collectives
    // of a copy, where recorded; a float, since there may be millions of spans
    float bytes = 0;
    friend bool operator==(const DeviceSpan&, const DeviceSpan&) = default;
};

// An operator whose work follows from its inputs: a matrix product, attention, or a pass over
// memory. `op` is PyTorch's name.
struct OperatorCall {
    std::string op, dtype;  // "aten::mm", "c10::BFloat16"
    // Gemm, Attention or MemoryPass; `known` is false if we have no such dtype
    Op work;
    std::string kind = {};  // for a pass: "copy", "add", "gelu", "softmax", "layernorm"
    long kv_heads = 0;      // for attention
    bool known = true;
    bool layout_known = false;  // for a product: strides were recorded
    friend bool operator==(const OperatorCall&, const OperatorCall&) = default;
};

// A collective. The elements are those on this rank. `group` is the name of the process group ("" =
// unknown), `members` the list of its ranks as recorded ("[0,1]"; cut short where they are many, ""
// = unknown).
struct CollectiveCall {
    // as recorded: "allreduce", "_allgather_base", "all_to_all"; else the kernel's name
    std::string op;
    std::string dtype, group, members;
    int ranks = 0;                 // of the group; 0 = unknown
    int source = -1, target = -1;  // for a send or receive: ranks within the group; -1 = unknown
    double in_elements = 0, out_elements = 0;
    bool from_kernel = true;  // false: recorded with the operator around the launch
    friend auto operator<=>(const CollectiveCall&, const CollectiveCall&) = default;
};

// A call in which the host waited for the device.
struct HostWait {
    std::int64_t start = 0, finish = 0;
    friend bool operator==(const HostWait&, const HostWait&) = default;
};

// What the device's allocator held from `time` on.
struct ProfiledMemory {
    std::int64_t time = 0;
    double allocated = 0, reserved = 0;  // bytes
    friend bool operator==(const ProfiledMemory&, const ProfiledMemory&) = default;
};

struct ProfiledStep {
    std::string name;         // "ProfilerStep#6"
    Seconds start, duration;  // start: on the clock of the spans
    int skipped = 0;          // number of marked steps before it that could not be timed

    friend bool operator==(const ProfiledStep&, const ProfiledStep&) = default;
};

struct ProfiledDevice {
    std::string name;
    int sms = 0;
    Bytes memory;
    friend bool operator==(const ProfiledDevice&, const ProfiledDevice&) = default;
};

// Host time of one call of the modules that are the model's layers; calls 0 = modules were not
// recorded.
struct ProfiledLayer {
    std::string name;
    int instances = 0;
    long calls = 0;
    Seconds host;
    friend bool operator==(const ProfiledLayer&, const ProfiledLayer&) = default;
};

struct ProfileCounts {
    long events = 0, kernels = 0, unlinked = 0, graph_kernels = 0;
    long products_without_shape = 0, collectives_without_size = 0, other_devices = 0;
    long dropped = 0;  // events that were no valid JSON or at no time
    friend bool operator==(const ProfileCounts&, const ProfileCounts&) = default;
};

struct Profile {
    std::string path;
    int rank = 0, ranks = 0;  // ranks 0 = unknown
    bool rank_told = false;
    ProfiledDevice device;
    std::vector<std::string> names;  // of kernels
    std::vector<DeviceSpan> spans;   // by start
    std::vector<OperatorCall> operators;
    std::vector<CollectiveCall> collectives;
    std::vector<ProfiledStep> steps;
    // the host ran ahead: steps last from the end of a step's device work to the end of the next's
    bool steps_on_device = false;
    // absolute nanoseconds of time 0, to compare the clocks of ranks
    std::int64_t origin = 0;
    std::vector<HostWait> waits;         // by start
    std::vector<ProfiledMemory> memory;  // by time; empty where it was not recorded
    std::vector<Seconds> launches;       // duration of each call that launches a kernel
    ProfiledLayer layer;
    int node_devices = 0;                 // GPUs of the node; 0 = unknown
    Bytes peak_reserved, peak_allocated;  // 0 = not recorded
    bool shapes = false;                  // the trace recorded shapes of operators
    bool shortened = false;  // its later part exceeded the memory limit and was dropped
    ProfileCounts counts;
    std::string broken;              // "", or where the file breaks off
    std::vector<std::string> notes;  // what could not be determined, in words
    friend bool operator==(const Profile&, const Profile&) = default;
};

}  // namespace stepcast
