// Chains of slots that need no search: the forwards that bring a stage its first input, all that
// the stage does, and the backwards that its last gradient passes then. Each slot waits for the one
// before, so no step is shorter. The paths that are searched for (sim/bounds/paths.h) are longer;
// most splits are excluded without them.
#pragma once

#include "sim/bounds/pipeline.h"

namespace stepcast {

// Adds the passes of a chunk's units in a slot, and the layers that it computes again.
void count_units(const Workload& workload, const Chunk& chunk, Pass pass, FeatureCounts& counts);

// Of all stages, without those that another covers. Empty where passes go by turns: these take less
// than both alone.
std::vector<StageChain> stage_chains(const PipelineKey& key, const Workload& workload,
                                     const std::vector<Order>& orders);

// In seconds, of units and recomputed layers alone, for `rounds` more than the key's.
double length_of(const StageChain& chain, int rounds, const FeatureTimes& times, bool recomputes);

// Of gathers of single units, how long the chain's stage gathers under zero 3, in seconds.
struct GatherTimes {
    double all = 0;
    double inside = 0;  // certainly after the stage's first slot begins and before its last ends
};
GatherTimes gather_times(const StageChain& chain, int rounds,
                         const std::array<double, unit_kinds>& unit);

}  // namespace stepcast
