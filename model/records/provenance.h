// Which measured rows a fit has read, identified by what they mean: copies with other names, order,
// remarks, rounding, or cells that follow from others are the same row; another GPU or precision is
// another row.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/experiment.h"
#include "model/records/measurements.h"

namespace stepcast {

// Hash of a measured number and of what it was measured at (`settings`). 36 bits, never 0: thirty
// of the settings, and in the low six the number in steps of 2 %, so that a rounded copy is at most
// one step away, which known_among() allows.
RowHash row_hash(std::string_view settings, double measured);

// Hash of a table's row: the first measured column that it states (step, time or value), its sizes,
// the words that say what was timed (op, dtype, pass, phase), and the GPU. Names, sources and notes
// do not count, nor do degrees of 1, which a blank cell means too. 0: the row states no measured
// number. `cell` returns the text of a column, "" for none.
RowHash row_hash(const std::function<std::string(std::string_view column)>& cell);
RowHash row_hash(const Sample& sample);
// Hash of a whole step by what was trained, however the row spells it: sizes, split, batch and
// precision of the experiment, the model of the GPU, the measured step.
RowHash row_hash(const Experiment& experiment, std::string_view gpu, Seconds measured);

// "NVIDIA H100 80GB HBM3" -> "h100": the first word with a digit; "" if there is none.
std::string gpu_word(std::string_view text);

// Hashes of the rows of whole steps, which represent their run; rows of single ranks do not count.
std::vector<RowHash> step_rows(const std::vector<Sample>& samples);

// Hashes as text: six letters each (base 64, as in URLs), twenty per line, for [fitted] and
// model/presets/seen_rows.txt.
std::vector<std::string> hash_lines(const std::vector<RowHash>& rows);
std::vector<RowHash> read_hash_line(std::string_view line);  // throws ConfigError

// The measured rows of any table; of imported measurements only those of whole steps. A table of
// whole steps has further hashes, by experiment (import/tables/row_hashes.h).
std::vector<RowHash> rows_of_file(const std::string& path);

// ascending, without duplicates
std::vector<RowHash> joined(std::vector<RowHash> a, const std::vector<RowHash>& b);

// The measured rows that a cluster's constants were fitted to, and those of the clusters that
// constants were copied from (Cluster::inherits), over all generations of copies.
std::vector<RowHash> fitted_rows(const Cluster& cluster);

// Rows that the author could see while making the model, its conventions and priors
// (model/presets/seen_rows.txt). Predictions of them are no evidence, fitted or not.
const std::vector<RowHash>& seen_rows();

// Whether `sorted` holds the row, its measured number rounded or not.
bool known_among(const std::vector<RowHash>& sorted, RowHash row);

// `fitted` if the fit has read any of the rows. Without rows (own runs) `unseen`.
Evidence evidence_of(const std::vector<RowHash>& rows, const std::vector<RowHash>& fitted,
                     const std::vector<RowHash>& seen);

}  // namespace stepcast
