// Reads the output of nccl-tests and rccl-tests as rows of collectives, in every layout since 2021
// or as JSON (-J). It finds columns by the words of the header and ignores launchers' line prefixes
// and colours; one file may hold several tests.
#pragma once

#include <string>
#include <vector>

#include "model/records/collective_row.h"

namespace stepcast {

// What the user knows and the output may not tell: 0 and "" = not given.
struct NcclTestsContext {
    std::string op;  // for example "all_gather"; no output before 2.18 states it
    int ranks = 0, nodes = 0;
};
struct NcclTestsRow {
    CollectiveRow out_of_place;  // nodes 0 = unknown
    Seconds in_place;            // 0 = not printed
    std::string gpu;             // "" = unknown
    friend bool operator==(const NcclTestsRow&, const NcclTestsRow&) = default;
};
struct NcclTestsLog {
    std::vector<NcclTestsRow> rows;
    std::vector<std::string> notes;  // what was inferred or left out
};

bool is_nccl_tests(const std::string& path);
// Leaves out, and notes, rows without bytes and rows with wrong results (#wrong above 0). Throws
// ConfigError for an output whose operation or ranks neither it nor `context` tells, and for one
// without a row.
NcclTestsLog read_nccl_tests(const std::string& path, const NcclTestsContext& context = {});

}  // namespace stepcast
