// From the tables of a PyTorch script (script_tables.h) to constants: which cases, which free parameters. Internal to
// calibrate/.
#pragma once

#include "calibrate/building_blocks.h"
#include "calibrate/fit.h"

namespace stepcast {

// Constants that launches state outright: host.call (issued one by one, in batches of 10 to 1000: fewer show the clock, more
// wait for a full queue), kernel.launch (one of a replayed graph of kernels of nothing), host.read. Half of their range as
// error. Without such rows the result has no parameters.
FitResult launch_fit(const Cluster& start, const BuildingBlocks& blocks);

// Kernels of a kind that say something: between events a kernel shorter than its own call shows that call. So of the rows of one
// call (`KernelRow::call`, or all GEMMs of a script) those within a quarter of the fastest are left out.
std::vector<KernelRow> above_floor(const std::vector<KernelRow>& rows);
std::vector<GemmRow> above_floor(const std::vector<GemmRow>& rows);

FitCase kernel_case(const KernelRow& row);

// One fit after the other: streams and rows with what events add, batched GEMMs, attention.
struct KernelFit {
    std::vector<std::string> kinds;
    std::vector<FitParameter> parameters;
};
std::vector<KernelFit> kernel_fits(const BuildingBlocks& blocks);

}  // namespace stepcast
