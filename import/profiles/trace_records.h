// What one pass over a trace keeps, whichever profiler wrote it: host operators, driver calls and
// device activity, as small records in bounded memory. Internal to calibrate/profiles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <boost/container/deque.hpp>

#include "import/profiles/operators.h"
#include "import/profiles/profile.h"

namespace stepcast {

// Numbers texts in order of first appearance. In hostile files, with too many texts to keep, the
// rest share one number.
class TextTable {
public:
    std::uint32_t add(std::string_view text);
    [[nodiscard]] const std::string& operator[](std::uint32_t i) const { return texts_[i]; }
    [[nodiscard]] std::vector<std::string> take() { return std::move(texts_); }
    [[nodiscard]] bool full() const { return bytes_ > most; }

private:
    // bytes: of all texts, of one
    static constexpr std::size_t most = std::size_t{8} << 20, longest = 4096;
    std::vector<std::string> texts_;
    std::unordered_map<std::string, std::uint32_t> numbers_;
    std::size_t bytes_ = 0;
};

// A duration in four bytes, as there are many records: whole nanoseconds up to 2 s, then whole
// microseconds up to 35 minutes at most.
class Length {
public:
    Length() = default;
    explicit Length(std::int64_t ns)
        : bits_(ns < long_one ? static_cast<std::uint32_t>(ns > 0 ? ns : 0)
                              : long_one | static_cast<std::uint32_t>(
                                               std::min<std::int64_t>(ns / 1000, long_one - 1))) {}
    [[nodiscard]] std::int64_t ns() const {
        return (bits_ & long_one) != 0 ? std::int64_t{bits_ & (long_one - 1)} * 1000 : bits_;
    }

private:
    static constexpr std::uint32_t long_one = 1U << 31;
    std::uint32_t bits_ = 0;
};

// Times are in nanoseconds, on the file's clock.
struct HostSpan {
    std::int64_t start = 0;
    Length length;
    std::uint32_t thread = 0, name = 0, inputs = 0;  // inputs: 0 = not recorded, or not needed
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

// Calls of the modules of one class, if the profiler records modules ("nn.Module: DecoderLayer_3").
struct ModuleSpans {
    std::set<std::string> instances;
    std::vector<float> seconds;  // host time of each call, in seconds
};

// A list that grows without moving its records and returns memory to the system as it shrinks,
// since its blocks are large.
template <typename Record>
using Records = boost::container::deque<
    Record, void, boost::container::deque_options_t<boost::container::block_bytes<1U << 18>>>;

struct TraceRecords {
    TextTable names, threads, inputs;
    std::vector<OperatorInputs> operator_inputs = {{}};  // indexed by HostSpan::inputs
    Records<HostSpan> host;
    Records<DriverCall> calls;
    Records<DeviceRecord> device;
    std::vector<HostSpan> steps;
    std::map<std::string, ModuleSpans> modules;                 // by class
    std::unordered_map<std::uint32_t, ProfiledDevice> devices;  // all of the node
    std::map<std::string, std::string> groups;  // by name: the members of process groups, "[0,1]"
    int rank = -1;
    // what is read as it will be: collectives, ranks, memory (thinned out where there are many
    // points), counts
    Profile profile;
    long memory_seen = 0, memory_every = 1;
    std::int64_t base = 0;  // added to times, gives absolute times
    long whole_graphs = 0;  // number of launches of CUDA graphs that are recorded as one piece
    // number of NCCL ranges whose sizes are in a binary payload of Nsight's export
    long nccl_payloads = 0;
    long untimed = 0;          // work on the GPU without a duration
    long begins_and_ends = 0;  // events that begin here and end in another
    bool of_xla = false;       // JAX's profiler
    int processes = 1;         // number in the file; the records are those of one
    std::int64_t first = std::numeric_limits<std::int64_t>::max();  // start of the earliest record
    std::int64_t window_end = std::numeric_limits<std::int64_t>::max();

    void add_memory(const ProfiledMemory& point);
    std::uint32_t add_inputs(const OperatorInputs& of);  // returns the number for HostSpan::inputs

    // Limits the memory: when records exceed `most` bytes, drops the later half of their time and
    // ignores what starts there from then on.
    void keep_below(std::size_t most);
    [[nodiscard]] std::size_t bytes() const;
};

bool launches_kernel(std::string_view call);  // calls of CUDA or HIP, runtime or driver
bool launches_graph(std::string_view call);
bool waits_for_device(std::string_view call);

inline constexpr std::size_t most_record_bytes = std::size_t{128} << 20;

// The host spans around a call that launched device work, as indices: the operator that the work
// belongs to (a product, else an attention, else the innermost) and the collective.
struct CallContext {
    std::int32_t work = -1, exchange = -1;
    bool product = false;
    ProfilePhase phase = ProfilePhase::unlinked;
};

// ns: old traces, and long Lengths, have whole microseconds
inline constexpr std::int64_t rounding = 1000;

}  // namespace stepcast
