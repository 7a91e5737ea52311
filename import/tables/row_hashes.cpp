#include "import/tables/row_hashes.h"

#include <fmt/format.h>

#include "import/tables/case_files.h"
#include "model/base/errors.h"
#include "model/base/joined.h"
#include "model/records/provenance.h"
#include "sim/results/comparison.h"

namespace stepcast {

std::vector<RowHash> rows_of_table(const std::string& path) {
    std::vector<RowHash> rows = rows_of_file(path);
    try {
        for (const Comparison& row : read_comparisons(path, ""))
            rows = joined(std::move(rows), row.what.rows);
    } catch (const ConfigError&) {  // a table of kernels, whose cells are all that it has
    }
    return rows;
}

std::string rows_text(const std::vector<std::string>& paths) {
    if (paths.empty()) throw ConfigError("list rows: no file; expected tables of measurements");
    std::vector<RowHash> rows;
    for (const std::string& path : paths) rows = joined(std::move(rows), rows_of_table(path));
    return fmt::format("{}\n", joined(hash_lines(rows), "\n"));
}

}  // namespace stepcast
