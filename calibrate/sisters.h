// Sisters: machines whose chips have the same SMs (model/presets/priors.toml). Their kernels follow
// the same laws, so the rows of all of them determine one fit. Each machine keeps its own datasheet
// values and its own share of the peak that products reach.
#pragma once

#include <string>
#include <vector>

#include "calibrate/building_blocks.h"
#include "calibrate/fit.h"

namespace stepcast {

struct Sister {
    Gpu gpu;
    Power power;
    BuildingBlocks blocks;
};

// The sisters of a shipped machine, with their rows of the tables; sisters without rows are left
// out.
std::vector<Sister> read_sisters(const std::vector<std::string>& tables, const Cluster& cluster);

// The cluster with the chip of its sister; all other constants stay.
Cluster seen_as(Cluster cluster, const Sister& sister);

// Whether both GPUs run a format at the same multiple of their 16-bit rate. Blackwell Ultra has
// other fp4 units, for example.
bool alike_in(Dtype dtype, const Gpu& a, const Gpu& b);

// Gives each machine its own copy of the parameters in `own`: machine 0 is the one that is fitted,
// its sisters follow.
std::vector<FitParameter> with_own(const std::vector<FitParameter>& parameters,
                                   const std::vector<std::string>& own, std::size_t sisters);

}  // namespace stepcast
