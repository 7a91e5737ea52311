// What one pass over a profiler's trace keeps, whichever profiler wrote it: host operators, calls into the driver and device activity, as small
// records in bounded memory. Internal to calibrate/profiles.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "calibrate/profiles/operators.h"
#include "calibrate/profiles/profile.h"

namespace stepcast {

// Texts numbered in order of first appearance.
class TextTable {
public:
    std::uint32_t add(std::string_view text);
    [[nodiscard]] const std::string& operator[](std::uint32_t i) const { return texts_[i]; }
    [[nodiscard]] std::vector<std::string> take() { return std::move(texts_); }

private:
    std::vector<std::string> texts_;
    std::unordered_map<std::string, std::uint32_t> numbers_;
};

// Times in nanoseconds as the file states them.
struct HostSpan {
    std::int64_t start = 0, finish = 0;
    std::uint32_t thread = 0, name = 0, inputs = 0;  // inputs: 0 = not recorded or of no interest
};
struct DriverCall {
    std::int64_t start = 0, finish = 0;
    std::uint64_t correlation = 0;
    std::uint32_t thread = 0;
    bool launches = false, graph = false, waits = false;
};
struct DeviceRecord {
    std::int64_t start = 0, finish = 0;
    std::uint64_t correlation = 0;
    std::uint32_t name = 0, stream = 0, device = 0;
    std::int32_t collective = -1;
    SpanKind kind = SpanKind::compute;
    double bytes = 0;
};

// Calls of the modules of one class, where the profiler records modules ("nn.Module: DecoderLayer_3").
struct ModuleSpans {
    std::set<std::string> instances;
    std::vector<float> seconds;  // host time of each call
};

struct TraceRecords {
    TextTable names, threads, inputs;
    std::vector<OperatorInputs> operator_inputs = {{}};  // of HostSpan::inputs
    std::deque<HostSpan> host;
    std::deque<DriverCall> calls;
    std::deque<DeviceRecord> device;
    std::vector<CollectiveCall> collectives;
    std::vector<HostSpan> steps;
    std::map<std::string, ModuleSpans> modules;  // by class
    std::unordered_map<std::uint32_t, ProfiledDevice> devices;  // of the node
    int rank = -1, world = 0;
    bool shapes = false;
    double reserved = 0, allocated = 0;
    std::vector<ProfiledMemory> memory;  // of the device; every so many-th where they are many
    long memory_seen = 0, memory_every = 1;
    std::int64_t base = 0;  // added to times it makes them absolute
    long dropped = 0;                                                // events that were no valid JSON
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

inline constexpr std::int64_t longest_record = 1'000'000'000'000'000;  // ns, eleven days: sums of many are still numbers
inline constexpr std::size_t most_record_bytes = std::size_t{160} << 20;
TraceRecords read_kineto_records(const std::string& path, std::size_t most_bytes = most_record_bytes);
TraceRecords read_nsight_records(const std::string& path, std::size_t most_bytes = most_record_bytes);

// Joins device work to the operators that launched it. Throws ConfigError for records without device work.
Profile link_records(TraceRecords records, const std::string& path);

}  // namespace stepcast
