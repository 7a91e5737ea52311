// A trace as Chrome trace JSON: opens in Perfetto and chrome://tracing.
#pragma once

#include <span>
#include <string>

#include "model/forecast.h"
#include "model/measurement.h"
#include "model/trace.h"

namespace stepcast {

// What a rank has allocated from `time` on: one point of its counter track.
struct MemoryPoint {
    int rank = 0;
    Seconds time;
    Bytes in_use;
    friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};

// What a trace says of itself beside its origin, as names and values.
using TraceNotes = std::vector<std::pair<std::string, std::string>>;
TraceNotes trace_notes(const Forecast& forecast);                                       // of its median draw
TraceNotes trace_notes(const std::string& experiment, const Measurement& measurement);  // of its last sample

// One process per rank (of ranks that do the same a simulation shows one, with the number that it stands for), one track
// per lane, times in microseconds; simulated and executed traces have the same shape. Streams beside the file and renames, so that no half file is left. Throws ConfigError when it cannot be written.
void write_chrome_trace(const TaskGraph& graph, const Trace& trace, const std::string& path,
                        const TraceNotes& notes = {}, std::span<const MemoryPoint> memory = {});

}  // namespace stepcast
