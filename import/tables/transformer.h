// The transformer that a row of a table names, and the circumstances under which it ran.
#pragma once

#include <string>

#include "import/tables/cases.h"
#include "import/tables/shelf.h"
#include "sim/results/comparison.h"

namespace stepcast {

// A transformer that no preset experiment describes. Its columns give workload and split, its gpu
// column (or the cluster `named`) the machine, its framework the rest. Defaults are listed among
// the assumptions. Throws ConfigError, column first.
Case transformer_case(const CaseRow& row, const std::string& named, Shelf& shelf);

}  // namespace stepcast
