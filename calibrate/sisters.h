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
    SisterChip chip;
    BuildingBlocks blocks;
};

// The sisters of a shipped machine, with their rows of the tables; sisters without rows are left
// out.
std::vector<Sister> read_sisters(const std::vector<std::string>& tables, const Cluster& cluster);

// Whether both GPUs run a format at the same multiple of their 16-bit rate. Blackwell Ultra has
// other fp4 units, for example.
bool alike_in(Dtype dtype, const Gpu& a, const Gpu& b);

}  // namespace stepcast
