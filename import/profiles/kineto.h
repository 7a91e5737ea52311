// Reads PyTorch's traces (Chrome JSON of any size) into records.
#pragma once

#include <string>

#include "import/profiles/trace_records.h"

namespace stepcast {

TraceRecords read_kineto_records(const std::string& path,
                                 std::size_t most_bytes = most_record_bytes);

}  // namespace stepcast
