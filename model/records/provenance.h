// Which measured rows a fit has read, told by their content: a copy under another name, in another order or with other
// remarks is the same row.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"
#include "model/records/measurements.h"

namespace stepcast {

// The measured number of a row (its step, time or value) with the sizes it was measured at; words only where they say what
// was timed (op, dtype, pass, phase). Names, sources, notes and devices do not count, numbers are equal however they are
// written. 36 bits, never 0; 0 where the row states no measured number. `cell` gives the text of a column, "" for none.
RowHash row_hash(const std::function<std::string(std::string_view column)>& cell);
RowHash row_hash(const Sample& sample);
// The rows of whole steps, which stand for their run: of the run, not of single ranks.
std::vector<RowHash> step_rows(const std::vector<Sample>& samples);

// Six letters a hash (base 64, as in URLs), twenty hashes a line: rows of [fitted] and of model/presets/seen_rows.txt.
std::vector<std::string> hash_lines(const std::vector<RowHash>& rows);
std::vector<RowHash> read_hash_line(std::string_view line);  // throws ConfigError

// The measured rows of any table; of imported measurements those of whole steps.
std::vector<RowHash> rows_of_file(const std::string& path);
// Of all files, as lines; throws ConfigError without a file.
std::string rows_text(const std::vector<std::string>& paths);

std::vector<RowHash> joined(std::vector<RowHash> a, const std::vector<RowHash>& b);  // ascending, each once

// What a cluster knows of measured rows: those that its own constants were fitted to, and those of the clusters that its
// constants were copied from (Cluster::inherits), however far back.
std::vector<RowHash> fitted_rows(const Cluster& cluster);

// Rows that were there while the model, its conventions and priors were made (model/presets/seen_rows.txt): what is
// predicted of them is no evidence, fitted or not.
const std::vector<RowHash>& seen_rows();

// Fitted when the fit has read any of the rows. Without rows (own runs) unseen.
Evidence evidence_of(const std::vector<RowHash>& rows, const std::vector<RowHash>& fitted,
                     const std::vector<RowHash>& seen);

}  // namespace stepcast
