// Building-block tables (building_blocks.h) as comparisons of measured and predicted: every row on
// the cluster of its own device.
#pragma once

#include <string>

#include "measured/transfer_spreads.h"
#include "sim/results/kernel_comparison.h"

namespace stepcast {

// judged by its header; false for files that are no table
bool holds_kernels(const std::string& path);

// Each row is predicted on the shipped cluster whose GPU it names (if several, the one fitted to
// most samples), else on the one for the GPU's family; `cluster` replaces all of them. p10..p90 is
// as wide as the held-out error that the cluster states for the kind, or as transferred constants
// are off. Throws ConfigError with file:line for a row that cannot be read.
KernelComparisons read_kernel_comparisons(const std::string& path, const std::string& cluster);

// Reads only the rows of the cluster's own device.
KernelComparisons read_own_kernels(const std::string& path, const Cluster& cluster);

// The same without the device's shipped cluster: predicted from its nameplate and the constants of
// the other devices.
KernelComparisons read_transferred_kernels(const std::string& path);
// How far off those predictions are: the uncertainty stated for machines without measurements.
TransferSpreads transfer_spreads(const KernelComparisons& transferred);

}  // namespace stepcast
