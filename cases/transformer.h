// A case row of a transformer that no preset experiment describes. Internal to cases/.
#pragma once

#include "cases/cases.h"
#include "cases/cluster.h"

namespace stepcast {

// Workload and split from the row's columns, the machine from its gpu column (or the cluster `named`); what it does not
// state from its framework, each listed among the assumptions. Throws ConfigError, column first.
Case transformer_case(const CaseRow& row, const std::string& named, Shelf& shelf);

// case_of() with clusters already read.
Case case_of(const CaseRow& row, const std::string& cluster, Shelf& shelf);

}  // namespace stepcast
