// Building-block tables (building_blocks.h) as comparisons: every row on the cluster of its own device.
#pragma once

#include <string>

#include "model/answers/kernel_comparison.h"
#include "model/machine/scatter.h"

namespace stepcast {

bool holds_kernels(const std::string& path);  // by its header; false for what is no table

// Of each row the cluster is the shipped one whose GPU the row names (of several the one fitted to most samples), else the
// one for its family; `cluster` replaces all of them. p10..p90 is as wide as the held-out error that the cluster states for
// the kind, or transferred constants are off. Throws ConfigError with file:line for a row that cannot be read.
KernelComparisons read_kernel_comparisons(const std::string& path, const std::string& cluster);

// Only rows of the cluster's own device.
KernelComparisons read_own_kernels(const std::string& path, const Cluster& cluster);

// The same with every device's shipped cluster left out: its nameplate and the constants of the others.
KernelComparisons read_transferred_kernels(const std::string& path);
// How far those are off: what machines without measurements are said to be uncertain by.
TransferSpreads transfer_spreads(const KernelComparisons& transferred);

}  // namespace stepcast
