// Machines whose chips have the same SMs (model/presets/priors.toml): the form of their kernels' laws is one, so that the rows of all
// of them determine it. What the datasheet states is each one's own, and the share of the peak that products reach.
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

// Of a shipped machine, with their rows of the tables; those without rows are left out.
std::vector<Sister> read_sisters(const std::vector<std::string>& tables, const Cluster& cluster);

// The constants of a machine on the chip of its sister.
Cluster seen_as(Cluster cluster, const Sister& sister);

// Whether they run a format at the same multiple of 16 bits: Blackwell Ultra's fp4 units are others.
bool alike_in(Dtype dtype, const Gpu& a, const Gpu& b);

// Adds what is each machine's own of these: machine 0 is the one that is fitted, its sisters follow.
std::vector<FitParameter> with_own(const std::vector<FitParameter>& parameters, const std::vector<std::string>& own, std::size_t sisters);

}  // namespace stepcast
