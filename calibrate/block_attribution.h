// Which rank computes which blocks, and which rank a kernel line belongs to, from a trace that prints ranks' lines
// interleaved and mostly unnamed. What cannot be told is left out and said, never guessed.
#pragma once

#include <optional>
#include <vector>

#include "model/routing.h"

namespace stepcast {

// What one step of a phase trace printed. `sightings`: "R wait time" directly followed by a bare block count.
struct StepTrace {
    struct Sighting {
        int rank = 0, blocks = 0;
    };
    struct Kernel {
        bool gather = false;  // AG, else GA
        double ratio = 0;     // remote / blocks, as printed (six digits)
        double seconds = 0;
    };
    std::vector<BlockTotals> blocks;  // in printed order, ranks unknown
    std::vector<Sighting> sightings;
    std::vector<Kernel> kernels;
};

// Per step the totals of each rank; empty where a step does not tell. A step whose sightings are torn by interleaving
// borrows the assignment of another step of the run with the same blocks.
std::vector<std::vector<BlockTotals>> assign_blocks(const std::vector<StepTrace>& steps, int ranks);

// The assignment most steady steps agree on; nullopt when no step tells.
struct SteadyBlocks {
    std::vector<BlockTotals> totals;
    int agreeing = 0, steps = 0;
};
std::optional<SteadyBlocks> steady_blocks(const std::vector<std::vector<BlockTotals>>& by_step);

// The rank whose remote share prints as `ratio`; nullopt when none or several do.
std::optional<int> rank_of_ratio(const std::vector<BlockTotals>& totals, double ratio);

}  // namespace stepcast
