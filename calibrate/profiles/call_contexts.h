// What encloses the calls of a trace that launched device work. Internal to calibrate/profiles.
#pragma once

#include <cstdint>
#include <vector>

#include "calibrate/profiles/trace_records.h"

namespace stepcast {

// As indices of host spans: the operator whose work it is (a product, else an attention, else the innermost) and the collective.
struct CallContext {
    std::int32_t work = -1, exchange = -1;
    bool product = false;
    ProfilePhase phase = ProfilePhase::unlinked;
};
// For each call, in their order.
std::vector<CallContext> call_contexts(const TraceRecords& records);

}  // namespace stepcast
