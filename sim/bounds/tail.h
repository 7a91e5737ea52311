// What data parallelism adds before and after the slots of a stage, and how it slows the slots that
// overlap it.
#pragma once

#include "sim/bounds/data.h"

namespace stepcast {

// Time lost to `collective` seconds of communication during `work` seconds, which it slows by
// `slowdown`. If the work is a plan with collectives of its own, `slowdown` is smaller by their
// share.
inline double lost_to_overlap(double work, double collective, double slowdown) {
    return slowdown / (1 + slowdown) * std::min(collective, (1 + slowdown) * work);
}

// By how much communication slows the kernels that overlap it, and their time: `computing` is that
// of BoundShape.
struct Slowing {
    const FeatureTimes& computing;
    double slowdown;
};

// The times of layers and ends under zero 3, where units are gathered and gradients exchanged in
// every micro-batch, on a stage with these units.
FeatureTimes with_sharding(FeatureTimes times, const Slowing& slowing, const ParallelPlan& plan,
                           const DataTimes& data, const UnitCounts& units);
// By how much overlapping communication slows all that a stage does: that of its kernels times
// their share of the time.
double slowdown_of(const FeatureTimes& times, const Slowing& slowing, const UnitCounts& units);

// For one group of stages.
struct Tail {
    // of the slots: by parameters that they wait for at the start, and by slower last backwards
    double delay = 0;
    double exposed = 0;  // between the last slot and the norm
};
struct TailInputs {
    const ParallelPlan& plan;
    const FeatureTimes& times;  // after with_sharding()
    const StageGroup& group;
    const DataTimes& data;
    int chunks = 1;
    double micro_batches = 1;  // of each chunk
    double slowdown = 0;
};
// `end`: when the slots of the group end without delays.
Tail tail_of(const TailInputs& in, double end);

}  // namespace stepcast
