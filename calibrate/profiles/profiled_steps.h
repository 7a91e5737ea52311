// Which marks of a trace are its steps, and how long they took. Internal to calibrate/profiles.
#pragma once

#include <cstdint>
#include <vector>

#include "calibrate/profiles/trace_records.h"

namespace stepcast {

inline constexpr std::int64_t rounding = 1000;  // ns: old traces state whole microseconds, as do long lengths

// By start, without those that lie inside another.
std::vector<HostSpan> outermost(std::vector<HostSpan> spans);

// The steps of a profile whose spans are linked, and what is to be said of them: on the host where the device keeps up with it, else
// on the device.
void add_steps(const TraceRecords& records, std::int64_t origin, Profile& profile);

}  // namespace stepcast
