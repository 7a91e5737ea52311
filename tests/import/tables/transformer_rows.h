// Rows of tables for tests: a GPT of 3.6 billion weights on 64 A100, and the cells of a DeepSeek.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "import/tables/case_of.h"
#include "import/tables/cases.h"
#include "tests/model/files.h"

namespace stepcast {

inline const std::vector<std::pair<std::string, std::string>> gpt_row{
    {"source", "vtrain_multi"},
    {"case_id", "a"},
    {"model", "gpt-3.6B"},
    {"layers", "30"},
    {"hidden", "3072"},
    {"heads", "32"},
    {"kv_heads", "32"},
    {"ffn", "12288"},
    {"vocab", "50257"},
    {"seq", "2048"},
    {"experts", ""},
    {"topk", ""},
    {"gpus", "64"},
    {"gpu", "A100-80GB"},
    {"interconnect", "8x HDR200 IB per node"},
    {"tp", "2"},
    {"pp", "2"},
    {"vp", "1"},
    {"dp", "16"},
    {"ep", ""},
    {"cp", "1"},
    {"sp", "off"},
    {"zero", "0"},
    {"mbs", "8"},
    {"gbs", "512"},
    {"recompute", "full (use_checkpoint true in configs)"},
    {"precision", "fp16"},
    {"value", ""},
    {"unit", ""},
    {"step_s", "3.5"},
    {"notes", ""}};

// The row with some cells replaced.
inline CaseRow gpt_row_with(const std::vector<std::pair<std::string, std::string>>& changes) {
    CaseRow row{"c.csv", 2, {}};
    for (const auto& [column, text] : gpt_row) row.cells[column] = text;
    for (const auto& [column, text] : changes) row.cells[column] = text;
    return row;
}

inline Case gpt_case_with(const std::vector<std::pair<std::string, std::string>>& changes) {
    return case_of(gpt_row_with(changes), "");
}
inline std::string gpt_refusal(const std::vector<std::pair<std::string, std::string>>& changes) {
    return complaint([&] { gpt_case_with(changes); });
}
inline bool takes_for_granted(const Case& c, const std::string& assumption) {
    return std::find(c.assumptions.begin(), c.assumptions.end(), assumption) != c.assumptions.end();
}

inline const std::vector<std::pair<std::string, std::string>> deepseek_cells{
    {"source", "simumax_b200"},
    {"model", "deepseek-v3"},
    {"layers", "4"},
    {"hidden", "7168"},
    {"heads", "128"},
    {"kv_heads", "128"},
    {"ffn", "2048"},
    {"vocab", "129280"},
    {"seq", "4096"},
    {"experts", "256"},
    {"topk", "8"},
    {"gpus", "8"},
    {"gpu", "B200-SXM"},
    {"tp", "1"},
    {"pp", "1"},
    {"dp", "8"},
    {"ep", "8"},
    {"zero", "1"},
    {"mbs", "1"},
    {"gbs", "32"},
    {"recompute", "none (release cases)"},
    {"precision", "bf16"},
    {"notes", "peak allocated 104.3 GiB measured; 1 dense layer of the 4 (release note)"}};

}  // namespace stepcast
