// Hashes of the rows of any table of measurements, for lists of rows that somebody has seen.
#pragma once

#include <string>
#include <vector>

#include "model/cluster.h"

namespace stepcast {

// Of a table of whole steps the rows by experiment and, because a later program may read them
// differently, by their cells too; of other tables by cells (model/records/provenance.h).
std::vector<RowHash> rows_of_table(const std::string& path);
// The rows of all files as text lines. Throws ConfigError if there is no file.
std::string rows_text(const std::vector<std::string>& paths);

}  // namespace stepcast
