// A trace as Chrome trace JSON: opens in Perfetto and chrome://tracing.
#pragma once

#include <span>
#include <string>

#include "model/trace.h"

namespace stepcast {

// What a rank has allocated from `time` on: one point of its counter track.
struct MemoryPoint {
    int rank = 0;
    Seconds time;
    Bytes in_use;
    friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};

// One process per rank, one track per lane, times in microseconds; simulated and executed traces look the same.
// Streams beside the file and renames, so that no half file is left. Throws ConfigError when it cannot be written.
void write_chrome_trace(const TaskGraph& graph, const Trace& trace, const std::string& path,
                        std::span<const MemoryPoint> memory = {});

}  // namespace stepcast
