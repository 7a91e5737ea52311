// Where a profile's steps begin and end.
#pragma once

#include <cstdint>
#include <vector>

#include "import/profiles/profile.h"
#include "import/profiles/trace_records.h"

namespace stepcast {

// Sorted by start, without spans that lie inside another.
std::vector<HostSpan> outermost(std::vector<HostSpan> spans);

// Adds the steps to a profile whose spans are linked, and notes. Steps are timed on the host if the
// device keeps up, else on the device.
void add_steps(const TraceRecords& records, std::int64_t origin, Profile& profile);

}  // namespace stepcast
