// Finds which rank computed which blocks and which rank a kernel line belongs to, in a trace whose
// ranks print interleaved and mostly without their number. What the trace does not tell is left out
// and reported, never guessed.
#pragma once

#include <optional>
#include <vector>

#include "model/routing.h"

namespace stepcast {

// What one step of a phase trace printed. A sighting is the line "R wait time" directly followed by
// a bare block count.
struct StepTrace {
    struct Sighting {
        int rank = 0, blocks = 0;
    };
    struct Kernel {
        bool gather = false;  // true: AG, false: GA
        double ratio = 0;     // remote / blocks, as printed (six digits)
        double seconds = 0;
    };
    std::vector<BlockTotals> blocks;  // in printed order, ranks unknown
    std::vector<Sighting> sightings;
    std::vector<Kernel> kernels;
};

// The totals of each rank for each step; empty where a step does not tell. A step whose sightings
// are torn apart by interleaving takes the assignment of another step of the run with the same
// blocks.
std::vector<std::vector<BlockTotals>> assign_blocks(const std::vector<StepTrace>& steps, int ranks);

// The assignment that most steady steps agree on; nullopt when no step tells one.
struct SteadyBlocks {
    std::vector<BlockTotals> totals;
    int agreeing = 0, steps = 0;
};
std::optional<SteadyBlocks> steady_blocks(const std::vector<std::vector<BlockTotals>>& by_step);

// The rank whose remote share rounds to `ratio`; nullopt when none or several do.
std::optional<int> rank_of_ratio(const std::vector<BlockTotals>& totals, double ratio);

}  // namespace stepcast
