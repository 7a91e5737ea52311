// Writes a trace as Chrome trace JSON, for Perfetto and chrome://tracing.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/graph/trace.h"
#include "model/records/measurement.h"
#include "sim/results/forecast.h"
#include "sim/results/traced_step.h"

namespace stepcast {

// What the file states about the trace besides its origin, as names and values.
using TraceNotes = std::vector<std::pair<std::string, std::string>>;
// of its median draw
TraceNotes trace_notes(const Forecast& forecast);
// of its last sample
TraceNotes trace_notes(const std::string& experiment, const Measurement& measurement);

// What the file holds besides the spans.
struct TraceExtras {
    TraceNotes notes = {};
    std::vector<MemoryPoint> memory = {};
    TracedSlices traced = {};  // shown beside the graph's ranks
    std::string prefix = {};   // prefix of the ranks' names, such as "predicted "
};

// One process per rank (a simulation shows one of several ranks that do the same, with their
// number), one track per lane, times in microseconds. Simulated and executed traces have the same
// form. Sends to another rank are arrows, memory is a counter. Writes to a file next to `path` and
// renames it, so that no incomplete file remains. Throws ConfigError when it cannot be written.
void write_chrome_trace(const TaskGraph& graph, const Trace& trace, const std::string& path,
                        const TraceExtras& extras = {});

}  // namespace stepcast
