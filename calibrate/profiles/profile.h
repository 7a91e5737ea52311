// A profiler's trace of one rank as plain values: what ran on the device, for which operator, in which phase, and what the
// host paid for it. Readers: kineto.cpp (PyTorch's profiler), nsight.cpp (Nsight Systems). What is made of it: tables.h.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "model/graph/op.h"
#include "model/names.h"
#include "model/units.h"

namespace stepcast {

// Where a kernel belongs, by the operators around the call that launched it. `unlinked`: launched before the window, or by a
// thread that was not profiled; its time is that of another step.
enum class ProfilePhase : std::uint8_t { forward, backward, recompute, optimizer, unlinked };
constexpr auto names_of(ProfilePhase) {
    using enum ProfilePhase;
    return name_table<ProfilePhase>("a phase of a profile", {{forward, "forward"}, {backward, "backward"}, {recompute, "recompute"}, {optimizer, "optimizer"}, {unlinked, "unlinked"}});
}

enum class SpanKind : std::uint8_t { compute, communication, copy, set };

inline constexpr std::int64_t not_launched = std::numeric_limits<std::int64_t>::min();  // in the window, by a call that is known

inline Seconds seconds(std::int64_t ns) { return Seconds(static_cast<double>(ns) * 1e-9); }

// Times are nanoseconds since the first device activity of the trace.
struct DeviceSpan {
    std::int64_t start = 0, finish = 0;
    std::int64_t launched = not_launched;  // end of the call that launched it
    std::uint32_t name = 0;  // index into Profile::names
    std::uint32_t stream = 0;
    SpanKind kind = SpanKind::compute;
    ProfilePhase phase = ProfilePhase::unlinked;
    std::int32_t instance = -1;    // tells calls of an operator apart: kernels of one call share it; of a collective its number
                                   // among its group's calls, where recorded
    std::int32_t sized = -1;       // index into Profile::operators
    std::int32_t collective = -1;  // into Profile::collectives
    float bytes = 0;               // of a copy, where recorded; a float, as there may be millions of spans
    friend bool operator==(const DeviceSpan&, const DeviceSpan&) = default;
};

// An operator that its inputs size: a matrix product, attention, or a pass over memory. `op` as PyTorch names it.
struct OperatorCall {
    std::string op, dtype;      // "aten::mm", "c10::BFloat16"
    Op work;                    // Gemm, Attention or MemoryPass; its dtype where we have it, else `known` is false
    std::string kind = {};      // of a pass: "copy", "add", "gelu", "softmax", "layernorm"
    long kv_heads = 0;          // of attention
    bool known = true;
    bool layout_known = false;  // of a product: strides were recorded
    friend bool operator==(const OperatorCall&, const OperatorCall&) = default;
};
// A collective. Elements are those on this rank; `group` names the process group ("" = not told), `members` lists its ranks as
// recorded ("[0,1]"; cut where they are many, "" = not told).
struct CollectiveCall {
    std::string op;  // as recorded: "allreduce", "_allgather_base", "all_to_all"; a kernel's name where nothing says more
    std::string dtype, group, members;
    int ranks = 0;  // of the group; 0 = not told
    int source = -1, target = -1;  // of a send or receive: ranks within the group; -1 = not told
    double in_elements = 0, out_elements = 0;
    bool from_kernel = true;  // false: from the operator around the launch
    friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;
};

// The host waited for the device.
struct HostWait {
    std::int64_t start = 0, finish = 0;
    friend bool operator==(const HostWait&, const HostWait&) = default;
};
// What the device's allocator held from then on.
struct ProfiledMemory {
    std::int64_t time = 0;
    double allocated = 0, reserved = 0;  // bytes
    friend bool operator==(const ProfiledMemory&, const ProfiledMemory&) = default;
};

struct ProfiledStep {
    std::string name;  // "ProfilerStep#6"
    Seconds start, duration;  // start as the spans'
    int skipped = 0;          // steps before it that could not be timed

    friend bool operator==(const ProfiledStep&, const ProfiledStep&) = default;
};

struct ProfiledDevice {
    std::string name;
    int sms = 0;
    Bytes memory;
    friend bool operator==(const ProfiledDevice&, const ProfiledDevice&) = default;
};

// Host time of one call of the modules that make up the model's layers, where modules were recorded; calls 0 = they were not.
struct ProfiledLayer {
    std::string name;
    int instances = 0;
    long calls = 0;
    Seconds host;
    friend bool operator==(const ProfiledLayer&, const ProfiledLayer&) = default;
};

struct ProfileCounts {
    long events = 0, kernels = 0, unlinked = 0, graph_kernels = 0, graph_launches = 0;
    long products_without_shape = 0, collectives_without_size = 0, other_devices = 0, dropped = 0;
    friend bool operator==(const ProfileCounts&, const ProfileCounts&) = default;
};

struct Profile {
    std::string path;
    int rank = 0, ranks = 0;  // ranks 0 = not told
    bool rank_told = false;
    ProfiledDevice device;
    std::vector<std::string> names;  // of kernels
    std::vector<DeviceSpan> spans;   // by start
    std::vector<OperatorCall> operators;
    std::vector<CollectiveCall> collectives;
    std::vector<ProfiledStep> steps;
    bool steps_on_device = false;  // the host ran ahead: they are from the end of one's work on the device to the next one's; else host time
    std::int64_t origin = 0;         // what 0 is in absolute nanoseconds, where clocks of ranks are compared
    std::vector<HostWait> waits;     // by start
    std::vector<ProfiledMemory> memory;  // by time, where it was recorded
    std::vector<Seconds> launches;  // duration of each call that launches a kernel
    ProfiledLayer layer;
    int node_devices = 0;  // GPUs of the node; 0 = not told
    Bytes peak_reserved, peak_allocated;  // 0 = not recorded
    bool shapes = false;  // the trace recorded shapes of operators
    bool shortened = false;  // its later part did not fit the bound of memory
    ProfileCounts counts;
    std::string broken;              // "" or where the file ended before its end
    std::vector<std::string> notes;  // what could not be told, in words
    friend bool operator==(const Profile&, const Profile&) = default;
};

// A file of either profiler; throws ConfigError for anything else, and for a trace without work on a GPU. An Nsight export may
// hold several processes, each a profile.
std::vector<Profile> read_profiles(const std::string& path);
bool is_kineto(const std::string& path);  // by its first bytes
bool is_nsight(const std::string& path);

// Kernels that move data between ranks, by their names: NCCL's and RCCL's, symmetric memory's, DeepEP's, NVSHMEM's.
bool is_communication(std::string_view kernel);

}  // namespace stepcast
