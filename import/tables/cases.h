// The format that what-if tables, published tables and own runs share: one training configuration
// per row, with its measured step. docs/files.md describes the columns.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/experiment.h"
#include "model/records/measurements.h"
#include "sim/results/comparison.h"

namespace stepcast {

// A row as read, keyed by column name. Unknown columns are refused; missing ones are empty.
struct CaseRow {
    std::string file;
    int line = 0;
    std::map<std::string, std::string> cells;
    [[nodiscard]] const std::string& cell(const std::string& column) const;
};
std::vector<CaseRow> read_cases(const std::string& path);  // throws ConfigError with file:line

// One [recorded] table of a shipped experiment: the systems and the model whose recorded runs
// belong to that experiment.
struct RecordedExperiment {
    std::string preset;
    std::vector<std::string> systems;
    std::string model;
};

// The shape of a recorded layer; Sample::model carries it as "moe_layer-1024x4096-fp16-8192-top2".
struct LayerShape {
    int hidden = 0, ffn = 0, tokens = 0, top_k = 0;
    std::string dtype;
    friend bool operator==(const LayerShape&, const LayerShape&) = default;
};

}  // namespace stepcast
