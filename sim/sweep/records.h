// A sweep's points as text, one record a line, for its file (docs/sweep.md) and for its processes.
// Numbers read back to the last digit.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/sweep/worker.h"

namespace stepcast {

inline constexpr std::string_view record_columns =
    "record,base,inner,step_s,lower_s,estimate_s,peak_bytes,tokens,price_per_s,ranks,count,text";

// Each returns whole lines, with their ends.
// for records without a point: "round", "complete"
std::string record_of(std::string_view kind, std::optional<std::uint64_t> count = {});
std::string record_of(const SimulatedPoint& point, const Settings& settings);
std::string records_of(const Screened& screened);
std::string records_of(const SweepJob& job);
std::string records_of(const SweepJobResult& result);

// The fields of a line without its end, one a column. This and the functions below throw
// ConfigError for text that is no such record.
using RecordFields = std::vector<std::string>;
RecordFields record_fields(std::string_view line);
std::uint64_t count_in(const RecordFields& record);
void read_record(const RecordFields& record, SweepJobResult& into);

SweepJob job_of(std::string_view records);
SweepJobResult result_of(std::string_view records);

}  // namespace stepcast
