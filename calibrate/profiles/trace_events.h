// Cuts a Chrome trace into its events as it is read, so that a file of any size needs the memory of its longest event.
// Internal to calibrate/profiles.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace stepcast {

// The text of one JSON value, followed by readable bytes (as simdjson wants); gone when the callback returns.
struct TraceText {
    std::string_view json;
    std::size_t readable = 0;  // bytes from json.data() on
};

struct TraceReading {
    long events = 0;
    std::size_t bytes = 0;  // read, after decompression
    std::string broken;     // "" or where and why reading ended before the end of the trace
    friend bool operator==(const TraceReading&, const TraceReading&) = default;
};

// Calls `event` for each element of "traceEvents" (or of a bare array) and `member` for the other keys of the object, before
// or after it. What breaks off is kept up to there and said in `broken`. Throws ConfigError when the file is no trace at all.
TraceReading read_trace_events(const std::string& path, const std::function<void(const TraceText&)>& event,
                               const std::function<void(std::string_view key, const TraceText&)>& member);

}  // namespace stepcast
