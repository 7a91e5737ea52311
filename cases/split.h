// How a case row of a transformer splits its work. Internal to cases/.
#pragma once

#include <string>
#include <vector>

#include "cases/cases.h"

namespace stepcast {

// The columns tp .. gbs and recompute; `experiment` has its workload, cluster and framework, from which follow what memory decides
// (cases_unstated.h). What is not stated is listed in `assumptions`. Throws ConfigError, column first.
Parallelism split_of(const CaseRow& row, int ranks, const Experiment& experiment,
                     std::vector<std::string>& assumptions);
// Modules of a layer that the row's recompute makes again by themselves, each under a checkpoint of its own (Megatron-Core).
double modules_again(const CaseRow& row, const Workload& workload);
// How else what the row leaves open may be read, beside the experiment that was made of it.
std::vector<Reading> readings_of_row(const CaseRow& row, const Experiment& experiment);

}  // namespace stepcast
