// Tables of dispatch and combine of expert layers' tokens (sim/costs/dispatch_law.h).
#pragma once

#include <vector>

#include "calibrate/building_blocks.h"
#include "calibrate/fit.h"
#include "model/records/table_row.h"

namespace stepcast {

// Leaves out rows over several nodes and of phases that move no tokens (nvlink_prepare).
void add_exchange(const TableRow& row, BuildingBlocks& blocks);

// the cluster has constants for the row's kernels
bool has_kernels(const Cluster& cluster, const ExchangeRow& row);

FitCase exchange_case(const ExchangeRow& row);

// One fit for each kind of kernels in the rows.
std::vector<FitPlan> exchange_fits(const BuildingBlocks& blocks);

}  // namespace stepcast
