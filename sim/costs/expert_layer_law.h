// The forward of one expert layer on one GPU, as inference frameworks run it and published tables time it.
#pragma once

#include <vector>

#include "model/cluster.h"

namespace stepcast {

// A layer of the rank that is timed. `rows`: of each of its experts, per draw of the router (one draw where balanced); `tokens`
// of the whole expert-parallel group, which the rank reads and writes. `weight_bytes`: of one weight.
struct ExpertLayer {
    std::vector<std::vector<long>> rows;
    long tokens = 0, hidden = 0, ffn = 0;
    Dtype dtype = Dtype::bf16;
    double weight_bytes = 2;
    friend bool operator==(const ExpertLayer&, const ExpertLayer&) = default;
};

// t = launch + tokens * token + mean over draws of [ gate and up [rows, 2 ffn, hidden] + down [rows, hidden, ffn] ]
//     + passes * (rows (2 hidden + 3 ffn) + 2 tokens hidden) * 2 B / (memory bandwidth * 0.85)
// A grouped product rounds the rows of every expert up to a tile:
//   min over tiles of corner(waves * 2 |T| (k + k0) / (peak per SM * efficiency * tile_rate),
//                            (weights of experts with rows + rows in and out) / (memory bandwidth * traffic))
// with tiles of 16 to 256 rows by 128 or 256, wave_loss 0.3, corner 0.4. Routing, permutation and sums are in `token` and `passes`.
Seconds expert_layer_time(const ExpertLayer& layer, const ExpertKernel& kernel, const Cluster& cluster);

}  // namespace stepcast
