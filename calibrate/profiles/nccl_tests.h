// What nccl-tests and rccl-tests print, as rows of collectives. Every layout from 2021 on: columns are found by the header's
// words, launchers' line prefixes and colours are passed over, several tests may follow each other; or its JSON file (-J).
#pragma once

#include <string>
#include <vector>

#include "calibrate/building_blocks.h"

namespace stepcast {

// What the output leaves open and the user knows: 0 and "" = not said.
struct NcclTestsContext {
    std::string op;  // "all_gather": no output says it before 2.18
    int ranks = 0, nodes = 0;
};
struct NcclTestsRow {
    CollectiveRow out_of_place;  // nodes 0 = not told
    Seconds in_place;            // 0 = not printed
    std::string gpu;             // "" = not told
    friend bool operator==(const NcclTestsRow&, const NcclTestsRow&) = default;
};
struct NcclTestsLog {
    std::vector<NcclTestsRow> rows;
    std::vector<std::string> notes;  // what was inferred or left out, in words
};

bool is_nccl_tests(const std::string& path);
// Rows of no bytes and rows that were wrong (#wrong above 0) are left out and said. Throws ConfigError for an output whose
// operation or ranks neither it nor `context` tells, and for one without a row.
NcclTestsLog read_nccl_tests(const std::string& path, const NcclTestsContext& context = {});

}  // namespace stepcast
