// Reads Nsight Systems' SQLite exports into records.
#pragma once

#include <string>

#include "import/profiles/trace_records.h"

namespace stepcast {

// Reads the n-th process that used a GPU, ordered by device and process id; TraceRecords::processes
// is their number.
TraceRecords read_nsight_records(const std::string& path, int n = 0,
                                 std::size_t most_bytes = most_record_bytes);

}  // namespace stepcast
