// A trace as Chrome trace JSON: opens in Perfetto and chrome://tracing.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/answers/forecast.h"
#include "model/answers/traced_step.h"
#include "model/graph/trace.h"
#include "model/records/measurement.h"

namespace stepcast {

// What a trace says of itself next to its origin, as names and values.
using TraceNotes = std::vector<std::pair<std::string, std::string>>;
TraceNotes trace_notes(const Forecast& forecast);                                       // of its median draw
TraceNotes trace_notes(const std::string& experiment, const Measurement& measurement);  // of its last sample

// What stands in the file next to the spans.
struct TraceExtras {
    TraceNotes notes = {};
    StepLabels labels = {};
    std::vector<MemoryPoint> memory = {};
    TracedSlices traced = {};         // next to the graph's ranks
    std::string prefix = {};  // of the ranks' names: "predicted "
};

// One process per rank (of ranks that do the same a simulation shows one, with the number that it stands for), one track
// per lane, times in microseconds; simulated and executed traces have the same shape. Sends to another rank are arrows, memory
// is a counter. Streams next to the file and renames, so that no half file is left. Throws ConfigError when it cannot be written.
void write_chrome_trace(const TaskGraph& graph, const Trace& trace, const std::string& path, const TraceExtras& extras = {});

}  // namespace stepcast
