// What one pass over a profiler's trace keeps, whichever profiler wrote it: host operators, calls into the driver and device activity, as small
// records in bounded memory. Internal to calibrate/profiles.
#pragma once

#include <algorithm>
#include <boost/container/deque.hpp>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "calibrate/profiles/operators.h"
#include "calibrate/profiles/profile.h"

namespace stepcast {

// Texts numbered in order of first appearance. Of hostile files, where they are too many to keep, the rest share one number.
class TextTable {
public:
    std::uint32_t add(std::string_view text);
    [[nodiscard]] const std::string& operator[](std::uint32_t i) const { return texts_[i]; }
    [[nodiscard]] std::vector<std::string> take() { return std::move(texts_); }
    [[nodiscard]] bool full() const { return bytes_ > most; }

private:
    static constexpr std::size_t most = std::size_t{8} << 20, longest = 4096;  // bytes of all, of one
    std::vector<std::string> texts_;
    std::unordered_map<std::string, std::uint32_t> numbers_;
    std::size_t bytes_ = 0;
};

// A duration in four bytes, as records are many: whole nanoseconds up to 2 s, whole microseconds up to 35 minutes, no longer.
class Length {
public:
    Length() = default;
    explicit Length(std::int64_t ns)
        : bits_(ns < long_one ? static_cast<std::uint32_t>(ns > 0 ? ns : 0)
                              : long_one | static_cast<std::uint32_t>(std::min<std::int64_t>(ns / 1000, long_one - 1))) {}
    [[nodiscard]] std::int64_t ns() const { return (bits_ & long_one) != 0 ? std::int64_t{bits_ & (long_one - 1)} * 1000 : bits_; }

private:
    static constexpr std::uint32_t long_one = 1U << 31;
    std::uint32_t bits_ = 0;
};

// Times in nanoseconds as the file states them.
struct HostSpan {
    std::int64_t start = 0;
    Length length;
    std::uint32_t thread = 0, name = 0, inputs = 0;  // inputs: 0 = not recorded or of no interest
    [[nodiscard]] std::int64_t finish() const { return start + length.ns(); }
};
struct DriverCall {
    std::int64_t start = 0;
    std::uint64_t correlation = 0;
    Length length;
    std::uint32_t thread = 0;
    bool launches = false, graph = false, waits = false;
    [[nodiscard]] std::int64_t finish() const { return start + length.ns(); }
};
struct DeviceRecord {
    std::int64_t start = 0;
    std::uint64_t correlation = 0;
    Length length;
    std::uint32_t name = 0, stream = 0, device = 0;
    std::int32_t collective = -1, sequence = -1;
    float bytes = 0;
    SpanKind kind = SpanKind::compute;
    [[nodiscard]] std::int64_t finish() const { return start + length.ns(); }
};

// Calls of the modules of one class, where the profiler records modules ("nn.Module: DecoderLayer_3").
struct ModuleSpans {
    std::set<std::string> instances;
    std::vector<float> seconds;  // host time of each call
};

// Grows without moving, and gives blocks back as it shrinks: blocks this large are the system's own.
template <typename Record>
using Records = boost::container::deque<Record, void, boost::container::deque_options_t<boost::container::block_bytes<1U << 18>>>;

struct TraceRecords {
    TextTable names, threads, inputs;
    std::vector<OperatorInputs> operator_inputs = {{}};  // of HostSpan::inputs
    Records<HostSpan> host;
    Records<DriverCall> calls;
    Records<DeviceRecord> device;
    std::vector<CollectiveCall> collectives;
    std::vector<HostSpan> steps;
    std::map<std::string, ModuleSpans> modules;  // by class
    std::unordered_map<std::uint32_t, ProfiledDevice> devices;  // of the node
    std::map<std::string, std::string> groups;  // members of process groups by name, "[0,1]"
    int rank = -1, world = 0;
    bool shapes = false;
    double reserved = 0, allocated = 0;
    std::vector<ProfiledMemory> memory;  // of the device; every so many-th where they are many
    long memory_seen = 0, memory_every = 1;
    std::int64_t base = 0;  // added to times it makes them absolute
    long dropped = 0;  // events that were no valid JSON
    long whole_graphs = 0;  // launches of graphs that are recorded as one piece
    long nccl_payloads = 0;  // ranges of NCCL whose sizes stand in a binary payload of Nsight's export
    int processes = 1;      // of the file; the records are those of one
    std::int64_t first = std::numeric_limits<std::int64_t>::max();  // start of the earliest record
    std::int64_t window_end = std::numeric_limits<std::int64_t>::max();
    bool shortened = false;
    std::string broken;
    long events = 0;

    void add_memory(const ProfiledMemory& point);
    std::uint32_t add_inputs(const OperatorInputs& of);  // as HostSpan::inputs counts them

    // Bounds the memory: when the records outgrow `most`, the later half of the time that they span is let go, and what
    // starts there is passed over from then on.
    void keep_below(std::size_t most);
    [[nodiscard]] std::size_t bytes() const;
};

bool launches_kernel(std::string_view call);  // of CUDA or HIP, runtime or driver
bool launches_graph(std::string_view call);
bool waits_for_device(std::string_view call);

inline constexpr std::size_t most_record_bytes = std::size_t{128} << 20;
TraceRecords read_kineto_records(const std::string& path, std::size_t most_bytes = most_record_bytes);
// Of the n-th process of the export that used a GPU, by device and process id; processes() says how many there are.
TraceRecords read_nsight_records(const std::string& path, int n = 0, std::size_t most_bytes = most_record_bytes);

// Joins device work to the operators that launched it. Throws ConfigError for records without device work.
Profile link_records(TraceRecords records, const std::string& path);

// What encloses a call that launched device work, as indices of host spans: the operator whose work it is (a product, else an
// attention, else the innermost) and the collective.
struct CallContext {
    std::int32_t work = -1, exchange = -1;
    bool product = false;
    ProfilePhase phase = ProfilePhase::unlinked;
};
std::vector<CallContext> call_contexts(const TraceRecords& records);  // for each call, in their order

inline constexpr std::int64_t rounding = 1000;  // ns: old traces state whole microseconds, as do long lengths

// By start, without those that lie inside another.
std::vector<HostSpan> outermost(std::vector<HostSpan> spans);

// The steps of a profile whose spans are linked, and what is to be said of them: on the host where the device keeps up with it, else
// on the device.
void add_steps(const TraceRecords& records, std::int64_t origin, Profile& profile);

}  // namespace stepcast
