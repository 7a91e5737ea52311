// Cuts a Chrome trace into events while reading: a file of any size needs the memory of its longest event. Internal to calibrate/profiles.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace stepcast {

// The text of one JSON value, followed by readable bytes (as simdjson needs them); valid only during the callback.
struct TraceText {
    std::string_view json;
    std::size_t readable = 0;  // bytes from json.data() on
};

struct TraceReading {
    long events = 0;
    std::string broken;     // "", or where and why reading stopped before the end of the trace
    friend bool operator==(const TraceReading&, const TraceReading&) = default;
};

// Calls `event` for each element of "traceEvents" (or of a bare array), and `member` for the object's other keys, before or after it. If
// the trace breaks off, the events so far are kept and `broken` tells why. Throws ConfigError when the file is no trace at all.
TraceReading read_trace_events(const std::string& path, const std::function<void(const TraceText&)>& event,
                               const std::function<void(std::string_view key, const TraceText&)>& member);

}  // namespace stepcast
