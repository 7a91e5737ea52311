#include "import/profiles/kineto.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include <simdjson.h>

#include "import/profiles/import_profiles.h"
#include "import/profiles/json_numbers.h"
#include "import/profiles/trace_events.h"
#include "import/profiles/trace_records.h"
#include "model/base/joined.h"
#include "model/base/lists.h"
#include "model/base/numbers.h"
#include "model/base/plain_text.h"
#include "model/base/refuse.h"
#include "model/base/text_search.h"

namespace stepcast {
namespace {

namespace od = simdjson::ondemand;

// us, in the year 2096; the sum of two such times in nanoseconds does not overflow
constexpr std::int64_t latest_time = 4'000'000'000'000'000,
                       no_time = std::numeric_limits<std::int64_t>::min();

// A decimal number of microseconds in whole nanoseconds, without a double, which has too few digits
// for absolute times. no_time for other texts, and for what is beyond all clocks, as nanoseconds
// since 1970 are.
std::int64_t nanoseconds(std::string_view token) {
    if (token.starts_with('"')) token.remove_prefix(1);  // some traces write numbers as texts
    std::int64_t whole = 0;
    const char *at = token.data(), *end = at + token.size();
    const auto read = std::from_chars(at, end, whole);
    if (read.ec != std::errc() || whole > latest_time || whole < -latest_time) return no_time;
    if (token.find_first_of("eE") != std::string_view::npos) {
        double value = 0;  // such as 1.2e+07
        std::from_chars(token.data(), end, value);
        return std::abs(value) <= real(latest_time) ? static_cast<std::int64_t>(value * 1e3)
                                                    : no_time;
    }
    if (read.ptr == end || *read.ptr != '.') return whole * 1000;
    std::int64_t fraction = 0, unit = 100;
    for (const char* digit = read.ptr + 1;
         digit != end && unit > 0 && *digit >= '0' && *digit <= '9'; ++digit, unit /= 10)
        fraction += (*digit - '0') * unit;
    return whole * 1000 + (token.front() == '-' ? -fraction : fraction);
}

// -1 for what is no time: NaN, null, a negative number.
std::int64_t duration(std::string_view token) {
    const auto digit = token.find_first_not_of('"');
    const bool told = digit != std::string_view::npos && token[digit] >= '0' && token[digit] <= '9';
    return told ? nanoseconds(token) : -1;
}

// The JSON without blanks between values; blanks inside quotes stay.
std::string compact(std::string_view json) {
    std::string out;
    bool quoted = false;
    for (const char c : json) {
        if (c == '"') quoted = !quoted;
        if (quoted || (c != ' ' && c != '\n' && c != '\r' && c != '\t')) out += c;
    }
    return out;
}

constexpr std::string_view module_prefix = "nn.Module: ";
constexpr std::size_t most_classes = 1000, most_instances = 1000, most_module_calls = 100000;

enum class Category : std::uint8_t { other, kernel, copy, set, host, call, memory, module };
Category category_of(std::string_view cat) {
    if (cat == "kernel" || cat == "Kernel") return Category::kernel;
    if (cat == "cpu_op" || cat == "Operator" || cat == "user_annotation") return Category::host;
    // of CUDA, HIP, ..
    if (cat.ends_with("_runtime") || cat.ends_with("_driver") || cat == "Runtime")
        return Category::call;
    if (cat == "gpu_memcpy" || cat == "Memcpy") return Category::copy;
    if (cat == "gpu_memset" || cat == "Memset") return Category::set;
    if (cat == "cpu_instant_event") return Category::memory;
    if (cat == "python_function") return Category::module;
    return Category::other;
}

struct EventArguments {
    std::uint64_t correlation = 0;
    std::uint32_t device = 0, stream = 0;
    bool placed = false;  // `device` is stated
    double bytes = 0, reserved = 0, allocated = 0;
    int device_type = -1;
    OperatorInputs inputs;
    CollectiveCall collective;
    std::int32_t sequence = -1;
};
struct KinetoEvent {
    std::string_view ph, name, pid, tid;
    Category category = Category::other;
    std::int64_t ts = no_time, dur = -1;  // dur: negative where none is told
    std::string thread;
    EventArguments args;
};

double number(od::value& value) {
    double out = 0;
    return value.get_double().get(out) == simdjson::SUCCESS ? out : 0;
}
// Numbers beyond [least, most] become the nearest bound.
template <std::integral T>
T whole(od::value& value, double least, double most) {
    return static_cast<T>(std::clamp(number(value), least, most));
}
std::string text(od::value& value) {
    std::string_view out;
    return value.get_string().get(out) == simdjson::SUCCESS ? std::string(out) : std::string();
}
std::string array_text(od::value& value) {
    od::array array;
    std::string_view raw;
    if (value.get_array().get(array) != simdjson::SUCCESS ||
        array.raw_json().get(raw) != simdjson::SUCCESS)
        return "";
    return compact(raw);
}

void read_input(std::string_view key, od::value& value, OperatorInputs& inputs) {
    if (key == "Input Dims" || key == "Input dims")
        inputs.dims = array_text(value);
    else if (key == "Input type")
        inputs.types = array_text(value);
    else if (key == "Input Strides")
        inputs.strides = array_text(value);
    else if (key == "Concrete Inputs")
        inputs.concrete = array_text(value);
}

void read_collective(std::string_view key, od::value& value, CollectiveCall& call) {
    if (key == "Collective name")
        call.op = text(value);
    else if (key == "In msg nelems")
        call.in_elements = number(value);
    else if (key == "Out msg nelems")
        call.out_elements = number(value);
    else if (key == "Group size")
        call.ranks = whole<int>(value, 0, 1e7);
    else if (key == "dtype")
        call.dtype = text(value);
    else if (key == "Process Group Name")
        call.group = text(value);
    else if (key == "Process Group Ranks")
        call.members = compact(text(value));
    else if (key == "Src Rank")
        call.source = whole<int>(value, -1, 1e7);
    else if (key == "Dst Rank")
        call.target = whole<int>(value, -1, 1e7);
}

// No key is of two of them.
void read_argument(std::string_view key, od::value& value, EventArguments& args) {
    args.placed = args.placed || key == "device" || key == "Device Id";
    if (key == "correlation")
        args.correlation = whole<std::uint64_t>(value, 0, 9e18);
    else if (key == "device" || key == "Device Id")
        args.device = whole<std::uint32_t>(value, 0, 4e9);
    else if (key == "stream")
        args.stream = whole<std::uint32_t>(value, 0, 4e9);
    else if (key == "bytes" || key == "Bytes")
        args.bytes = number(value);
    else if (key == "Seq")
        args.sequence = whole<std::int32_t>(value, -1, 2e9);
    else if (key == "Total Reserved")
        args.reserved = number(value);
    else if (key == "Total Allocated")
        args.allocated = number(value);
    else if (key == "Device Type")
        args.device_type = whole<int>(value, -1, 1e6);
    else if (key.starts_with("Input") || key == "Concrete Inputs")
        read_input(key, value, args.inputs);
    else
        read_collective(key, value, args.collective);
}

class KinetoReader {
public:
    KinetoReader(TraceRecords& records, std::size_t most) : r_(records), most_(most) {}
    [[nodiscard]] const std::set<std::string>& launching() const { return launching_; }
    [[nodiscard]] const std::set<std::string>& of_one_device() const { return of_one_device_; }

    void event(const TraceText& trace) {
        try {
            KinetoEvent e;
            if (parse(trace, e)) keep(e);
        } catch (const simdjson::simdjson_error&) {
            ++r_.profile.counts.dropped;
        }
    }

    // Ignores a key whose value has another type than the profiler writes.
    void member(std::string_view key, const TraceText& trace) {
        try {
            read_member(key, trace);
        } catch (const nlohmann::json::exception&) {
            ++r_.profile.counts.dropped;
        }
    }

private:
    template <std::integral T>
    T whole(const nlohmann::json& object, const char* key, T otherwise) {
        if (!object.contains(key)) return otherwise;
        const auto found = whole_number<T>(object[key]);
        if (!found) ++r_.profile.counts.dropped;
        return found.value_or(otherwise);
    }

    void read_member(std::string_view key, const TraceText& trace) {
        static constexpr std::pair<std::string_view, void (KinetoReader::*)(const nlohmann::json&)>
            members[] = {{"baseTimeNanoseconds", &KinetoReader::read_base},
                         {"distributedInfo", &KinetoReader::read_job},
                         {"deviceProperties", &KinetoReader::read_devices}};
        for (const auto& [name, read] : members)
            if (key == name)
                if (const auto json = nlohmann::json::parse(trace.json, nullptr, false);
                    !json.is_discarded())
                    (this->*read)(json);
    }

    void read_base(const nlohmann::json& json) {
        const auto base = whole_number<std::int64_t>(json);
        if (base && *base >= 0 && *base <= 1000 * latest_time) r_.base = *base;
    }

    void read_job(const nlohmann::json& json) {
        if (!json.is_object()) return;
        r_.rank = whole(json, "rank", -1);
        r_.profile.ranks = whole(json, "world_size", 0);
        for (const auto& group : json.value("pg_config", nlohmann::json::array()))
            if (group.is_object() && group.contains("ranks"))
                r_.groups[group.value("pg_name", "")] =
                    compact(group["ranks"].is_string() ? group["ranks"].get<std::string>()
                                                       : group["ranks"].dump());
    }

    void read_devices(const nlohmann::json& json) {
        if (!json.is_array()) return;
        for (const auto& d : json)
            if (d.is_object())
                r_.devices[whole(d, "id", 0U)] = {d.value("name", ""), whole(d, "numSms", 0),
                                                  Bytes(d.value("totalGlobalMem", 0.0))};
    }

    bool parse(const TraceText& trace, KinetoEvent& e) {
        od::document doc = parser_.iterate(trace.json.data(), trace.json.size(), trace.readable);
        for (auto field : doc.get_object()) {
            const std::string_view key = field.unescaped_key();
            od::value value = field.value();
            if (!read_field(key, value, e)) return false;
        }
        r_.begins_and_ends += e.ph == "B" ? 1 : 0;
        if (e.ph == "M" && e.name == "process_name")
            r_.of_xla = r_.of_xla || has(trace.json, "\"/device:");
        // In old traces allocations have no category.
        if (e.category == Category::other && e.ph == "i" && e.name == "[memory]")
            e.category = Category::memory;
        if (e.category == Category::other) return false;
        e.thread.assign(e.pid).append("/").append(e.tid);
        return e.category == Category::memory || e.ph == "X" || e.ph.empty();
    }

    // False for an event of a kind that is not read.
    static bool read_field(std::string_view key, od::value& value, KinetoEvent& e) {
        if (key == "ph") {
            e.ph = std::string_view(value.get_string());
        } else if (key == "cat") {
            e.category = category_of(value.get_string());
            return e.category != Category::other;
        } else if (key == "name") {
            e.name = std::string_view(value.get_string());
            return e.category != Category::module || e.name.starts_with(module_prefix);
        } else if (key == "ts") {
            e.ts = nanoseconds(value.raw_json_token());
        } else if (key == "dur") {
            e.dur = duration(value.raw_json_token());
        } else if (key == "pid") {
            e.pid = trimmed(value.raw_json_token(), " \t\r\n");
        } else if (key == "tid") {
            e.tid = value.raw_json_token();
        } else if (key == "args") {
            od::object args;
            if (value.get_object().get(args) == simdjson::SUCCESS)
                for (auto arg : args) {
                    const std::string_view name = arg.unescaped_key();
                    od::value of = arg.value();
                    read_argument(name, of, e.args);
                }
        }
        return true;
    }

    void keep(KinetoEvent& e) {
        if (e.ts == no_time) {
            ++r_.profile.counts.dropped;
            return;
        }
        const bool untimed = e.dur < 0;
        e.dur = std::max<std::int64_t>(e.dur, 0);
        if (e.category == Category::memory) {
            if (e.args.device_type == 0) return;  // host memory
            r_.profile.peak_reserved = std::max(r_.profile.peak_reserved, Bytes(e.args.reserved));
            r_.profile.peak_allocated =
                std::max(r_.profile.peak_allocated, Bytes(e.args.allocated));
            if (e.ts < r_.window_end) r_.add_memory({e.ts, e.args.allocated, e.args.reserved});
            return;
        }
        if (e.category == Category::module) return keep_module(e);
        if (e.ts >= r_.window_end) return;
        r_.first = std::min(r_.first, e.ts);
        const bool on_device = e.category == Category::kernel || e.category == Category::copy ||
                               e.category == Category::set;
        r_.untimed += on_device && untimed ? 1 : 0;
        if (e.category == Category::call && launches_kernel(e.name))
            launching_.insert(e.thread.substr(0, e.thread.find('/')));
        if (e.category == Category::host)
            keep_host(e);
        else if (e.category == Category::call)
            r_.calls.push_back({e.ts, e.args.correlation, Length(e.dur), r_.threads.add(e.thread),
                                launches_kernel(e.name), launches_graph(e.name),
                                waits_for_device(e.name)});
        else
            keep_device(e);
        if ((++kept_ & 0xffff) == 0) r_.keep_below(most_);
    }

    void keep_device(const KinetoEvent& e) {
        if (e.args.placed)
            if (const auto process = process_of_.try_emplace(e.args.device, e.pid).first;
                process->second != e.pid && of_one_device_.empty())
                of_one_device_ = {process->second, std::string(e.pid)};
        DeviceRecord record{.start = e.ts,
                            .correlation = e.args.correlation,
                            .length = Length(e.dur),
                            .name = r_.names.add(e.name),
                            .stream = e.args.stream,
                            .device = e.args.device,
                            .bytes = static_cast<float>(e.args.bytes)};
        if (e.category == Category::copy)
            record.kind = SpanKind::copy;
        else if (e.category == Category::set)
            record.kind = SpanKind::set;
        else if (is_communication(e.name))
            record.kind = SpanKind::communication;
        if (!e.args.collective.op.empty() && record.kind == SpanKind::communication) {
            record.collective = collective(e.args.collective);
            record.sequence = e.args.sequence;
        }
        r_.device.push_back(record);
    }

    // Similar calls share one entry. Beyond more kinds than any job has, calls get no entry.
    std::int32_t collective(const CollectiveCall& c) {
        constexpr std::size_t most_kinds = 20000;
        if (const auto known = value_in(collectives_, c)) return *known;
        if (collectives_.size() >= most_kinds) return -1;
        r_.profile.collectives.push_back(c);
        return collectives_[c] = static_cast<std::int32_t>(r_.profile.collectives.size() - 1);
    }

    void keep_host(KinetoEvent& e) {
        HostSpan span{e.ts, Length(e.dur), r_.threads.add(e.thread), r_.names.add(e.name), 0};
        if (e.name.starts_with("ProfilerStep#")) r_.steps.push_back(span);
        if (!e.args.inputs.dims.empty()) {
            r_.profile.shapes = true;
            if (!is_attention(e.name)) e.args.inputs.concrete.clear();
            span.inputs = r_.add_inputs(e.args.inputs);
        }
        r_.host.push_back(span);
    }

    // "nn.Module: DecoderLayer_3" names a class and one of its instances.
    void keep_module(const KinetoEvent& e) {
        // parse() could not check this if the name came before the category
        if (!e.name.starts_with(module_prefix)) return;
        const std::string_view name = e.name.substr(module_prefix.size());
        const std::string of_class(name.substr(0, name.rfind('_')));
        if (r_.modules.size() >= most_classes && !r_.modules.contains(of_class)) return;
        ModuleSpans& spans = r_.modules[of_class];
        if (spans.instances.size() < most_instances) spans.instances.emplace(name);
        if (spans.seconds.size() < most_module_calls)
            spans.seconds.push_back(static_cast<float>(real(e.dur) * 1e-9));
    }

    TraceRecords& r_;
    std::size_t most_;
    long kept_ = 0;
    std::map<CollectiveCall, std::int32_t> collectives_;
    std::set<std::string> launching_;                  // processes
    std::map<std::uint32_t, std::string> process_of_;  // as the trace counts each device's work
    std::set<std::string> of_one_device_;              // the first two, if a device has several
    od::parser parser_;
};

}  // namespace

TraceRecords read_kineto_records(const std::string& path, std::size_t most_bytes) {
    TraceRecords records;
    KinetoReader reader(records, most_bytes);
    const TraceReading reading = read_trace_events(
        path, [&](const TraceText& e) { reader.event(e); },
        [&](std::string_view key, const TraceText& m) { reader.member(key, m); });
    for (const auto& [processes, what] :
         {std::pair{reader.launching(), "launch kernels"},
          {reader.of_one_device(), "have work on a device of one number"}})
        if (processes.size() > 1)
            refuse(
                "{}: {} processes (pid {}) {}: traces of several ranks in one file, whose calls "
                "share numbers; expected a file for each rank",
                path, processes.size(), joined(processes, ", "), what);
    records.profile.broken = reading.broken;
    records.profile.counts.events = reading.events;
    records.keep_below(most_bytes);
    return records;
}

}  // namespace stepcast
