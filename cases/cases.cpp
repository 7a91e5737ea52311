#include "cases/cases.h"

#include <algorithm>

#include "model/errors.h"
#include "model/files/csv.h"

namespace stepcast {
namespace {

const std::vector<std::string> columns{
    "source",  "case_id", "model", "layers",    "hidden",       "heads",      "kv_heads",  "ffn",    "vocab", "seq",
    "experts", "topk",    "gpus",  "gpu",       "interconnect", "tp",         "pp",        "vp",     "dp",    "ep",
    "cp",      "sp",      "zero",  "mbs",       "gbs",          "recompute",  "precision", "metric", "value", "unit",
    "step_s",  "ref",     "notes", "forward_s", "backward_s",   "moe_system", "routing", "framework", "dispatch", "overlap_experts"};

void check_header(const CsvReader& csv) {
    const auto& header = csv.fields();
    for (const auto& name : header) {
        if (std::find(columns.begin(), columns.end(), name) == columns.end()) {
            const auto hint = did_you_mean(name, columns);
            csv.fail("\"" + name + "\" is no column of a cases file" +
                     (hint.empty() ? "; docs/formats.md lists them" : hint));
        }
        if (std::count(header.begin(), header.end(), name) > 1) csv.fail("column " + name + " is there twice");
    }
    for (const std::string required : {"model", "step_s"})
        if (std::find(header.begin(), header.end(), required) == header.end())
            csv.fail("column " + required + " is missing; expected a cases file as in docs/formats.md");
}

}  // namespace

const std::string& CaseRow::cell(const std::string& column) const {
    static const std::string empty;
    const auto found = cells.find(column);
    return found == cells.end() ? empty : found->second;
}

std::vector<CaseRow> read_cases(const std::string& path) {
    CsvReader csv(path);
    if (!csv.next()) csv.fail("is empty; expected a cases file as in docs/formats.md");
    check_header(csv);
    const auto header = csv.fields();
    std::vector<CaseRow> rows;
    while (csv.next()) {
        csv.expect_fields(header.size());
        CaseRow row{path, csv.line(), {}};
        for (std::size_t i = 0; i < header.size(); ++i) row.cells[header[i]] = csv.fields()[i];
        rows.push_back(std::move(row));
    }
    return rows;
}

}  // namespace stepcast
