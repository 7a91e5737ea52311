// Joins a trace's launches, kernels and contexts to the profile of one rank.
#pragma once

#include <string>

#include "import/profiles/profile.h"
#include "import/profiles/trace_records.h"

namespace stepcast {

// Links device work to the operators that launched it. Throws ConfigError for records without
// device work.
Profile link_records(TraceRecords records, const std::string& path);

}  // namespace stepcast
