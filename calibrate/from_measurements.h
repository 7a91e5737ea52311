// `calibrate --measurements`: reads files of one kind, hands them to the fit that knows them, writes the cluster file.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

struct CalibrationRequest {
    std::vector<std::string> measurements;
    std::string cluster;  // preset or file to start from
    std::string out;      // cluster file to write
    std::string date;     // of today, for the provenance
};

// Imported measurements (fit_moe.h; of whole models fit_noise.h) or building-block tables (fit_tables.h), told by their headers. Writes `out` and
// returns what to show. Throws ConfigError when the kinds are mixed or the file to start from would be overwritten.
std::string calibrate_from_measurements(const CalibrationRequest& request,
                                        const std::function<void(std::string_view)>& progress = {});

}  // namespace stepcast
