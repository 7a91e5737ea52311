// The forward of one expert layer on one GPU, as inference frameworks run it and as published
// tables time it.
#pragma once

#include <array>
#include <vector>

#include "model/cluster.h"

namespace stepcast {

inline constexpr std::array expert_tile_rows{128L, 64L, 32L, 16L, 256L};

// One draw of the router on a rank: its rows, its experts with rows, and tiles by expert_tile_rows,
// where each expert begins a new tile.
struct ExpertLoad {
    double rows = 0, experts = 0;
    std::array<double, expert_tile_rows.size()> tiles{};
    friend bool operator==(const ExpertLoad&, const ExpertLoad&) = default;
};
ExpertLoad expert_load(const std::vector<long>& rows_of_experts);

// The layer on the rank that is timed. `loads`: one for each draw of the router (one if balanced).
// `tokens`: of the whole expert-parallel group, which the rank reads and writes. `experts`: of all
// ranks; a token uses `top_k` of them. `weight_bytes`: of one weight.
struct ExpertLayer {
    std::vector<ExpertLoad> loads;
    long tokens = 0, hidden = 0, ffn = 0, experts = 0, top_k = 1;
    Dtype dtype = Dtype::bf16;
    double weight_bytes = 2;
    friend bool operator==(const ExpertLayer&, const ExpertLayer&) = default;
};

// t = launch + mean over draws of [ gate and up [rows, 2 ffn, hidden] + down [rows, hidden, ffn] ]
//   + passes * (rows (2 hidden + 3 ffn) + 2 tokens hidden) * 2 B / (memory bandwidth * 0.85)
// A grouped product rounds the rows of every expert up to a tile:
//   min over tiles of corner(waves * 2 |T| (k + k0) / (peak per SM * efficiency * tile_rate),
//                            (weights of experts with rows + rows in and out) / (memory bandwidth *
//                            traffic))
// with tiles of 16 to 256 rows by 128 or 256, wave_loss 0.3, corner 0.4. `passes` holds routing,
// permutation and sums. Triton's kernels take the tile that a table names (kernel.tabled): 64 x 64,
// but 16 x 64 for no more tokens than experts (SGLang 0.5.14, get_default_config). Their passes go
// over the tokens * top_k rows of all ranks, computed here or not. TensorRT-LLM's generated kernels
// for Blackwell have tiles of at most 64 rows (vLLM, calculate_tile_tokens_dim). Each tile of an
// expert reads the weights from memory again if they exceed the L2 (gpu.l2; kernel.reloads): half
// the rate at 16384 columns of 6144 weights.
Seconds expert_layer_time(const ExpertLayer& layer, const ExpertKernel& kernel,
                          const Cluster& cluster);

}  // namespace stepcast
