// How a case row of a transformer splits its work. Internal to model/.
#pragma once

#include <string>
#include <vector>

#include "model/cases/cases.h"

namespace stepcast {

// The columns tp .. gbs and recompute; `experiment` has its workload, cluster and framework, from which follow what memory decides
// (cases_unstated.h). What is not stated is listed in `assumptions`. Throws ConfigError, column first.
Parallelism split_of(const CaseRow& row, int ranks, const Experiment& experiment,
                     std::vector<std::string>& assumptions);

}  // namespace stepcast
