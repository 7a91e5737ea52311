// Which measured rows a fit has read, identified by content: copies with other names, order or remarks are the same row.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/cluster.h"
#include "model/records/measurements.h"

namespace stepcast {

// Hash of a row's measured number (step, time or value) and the sizes that it was measured at. Words count only if they say what was
// timed (op, dtype, pass, phase). Names, sources, notes and devices do not count, and numbers are equal however they are written. 36
// bits, never 0; 0 means that the row states no measured number. `cell` returns the text of a column, "" for none.
RowHash row_hash(const std::function<std::string(std::string_view column)>& cell);
RowHash row_hash(const Sample& sample);
// Hashes of the rows of whole steps, which represent their run; rows of single ranks do not count.
std::vector<RowHash> step_rows(const std::vector<Sample>& samples);

// Hashes as text: six letters each (base 64, as in URLs), twenty per line, for [fitted] and model/presets/seen_rows.txt.
std::vector<std::string> hash_lines(const std::vector<RowHash>& rows);
std::vector<RowHash> read_hash_line(std::string_view line);  // throws ConfigError

// The measured rows of any table; of imported measurements only those of whole steps.
std::vector<RowHash> rows_of_file(const std::string& path);
// The rows of all files as text lines. Throws ConfigError if there is no file.
std::string rows_text(const std::vector<std::string>& paths);

std::vector<RowHash> joined(std::vector<RowHash> a, const std::vector<RowHash>& b);  // ascending, without duplicates

// The measured rows that a cluster's constants were fitted to, and those of the clusters that constants were copied from
// (Cluster::inherits), over all generations of copies.
std::vector<RowHash> fitted_rows(const Cluster& cluster);

// Rows that the author could see while making the model, its conventions and priors (model/presets/seen_rows.txt). Predictions of
// them are no evidence, fitted or not.
const std::vector<RowHash>& seen_rows();

// `fitted` if the fit has read any of the rows. Without rows (own runs) `unseen`.
Evidence evidence_of(const std::vector<RowHash>& rows, const std::vector<RowHash>& fitted,
                     const std::vector<RowHash>& seen);

}  // namespace stepcast
