// In which phase and operator each kernel of a trace was launched, from the ranges around its
// launch.
#pragma once

#include <vector>

#include "import/profiles/trace_records.h"

namespace stepcast {

// one for each call, in the calls' order
std::vector<CallContext> call_contexts(const TraceRecords& records);

}  // namespace stepcast
