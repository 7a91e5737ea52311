// Cuts a Chrome trace into events while reading: a file of any size needs the memory of its longest
// event. Internal to calibrate/profiles.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace stepcast {

// The text of one JSON value, followed by readable bytes (as simdjson needs them); valid only
// during the callback.
struct TraceText {
    std::string_view json;
    std::size_t readable = 0;  // bytes from json.data() on
};

struct TraceReading {
    long events = 0;
    std::string broken;  // "", or where and why reading stopped before the end of the trace
    friend bool operator==(const TraceReading&, const TraceReading&) = default;
};

// Whether the file is a trace, by the keys of its outermost object or of the elements of its array,
// however much text stands before them. A trace that breaks off in its head still is one if a key
// that the profiler writes first says so.
bool is_trace(const std::string& path);

// Calls `event` for each element of "traceEvents" (or of a bare array), and `member` for what else
// of the object is read (its devices, its ranks, its clock), before or after it. If the trace
// breaks off, the events so far are kept and `broken` tells why. Throws ConfigError when the file
// is no trace at all.
TraceReading read_trace_events(
    const std::string& path, const std::function<void(const TraceText&)>& event,
    const std::function<void(std::string_view key, const TraceText&)>& member);

}  // namespace stepcast
