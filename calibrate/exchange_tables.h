// Tables of dispatch and combine of expert layers' tokens (sim/costs/dispatch_law.h). Internal to calibrate/.
#pragma once

#include "calibrate/building_blocks.h"
#include "calibrate/fit.h"
#include "calibrate/table_row.h"

namespace stepcast {

// Rows over several nodes and of steps that move no tokens (nvlink_prepare) are passed over.
void add_exchange(const TableRow& row, BuildingBlocks& blocks);

bool has_kernels(const Cluster& cluster, const ExchangeRow& row);  // its constants are known

FitCase exchange_case(const ExchangeRow& row);

// One fit for each kind of kernels that the rows hold.
struct ExchangeFit {
    std::vector<FitParameter> parameters;
    std::vector<FitCase> cases;
};
std::vector<ExchangeFit> exchange_fits(const BuildingBlocks& blocks);

}  // namespace stepcast
