// Before and after the slots of a stage: what data parallelism keeps waiting, and how it slows what overlaps it.
#pragma once

#include "sim/bounds/data.h"

namespace stepcast {

// Time lost to `collective` seconds of communication during `work` seconds, which it slows down by `slowdown`; the work of a
// plan, whose own collectives take part of it, by as much less.
inline double lost_to_overlap(double work, double collective, double slowdown) {
    return slowdown / (1 + slowdown) * std::min(collective, (1 + slowdown) * work);
}

// What layers and ends take while units are gathered and their gradients exchanged in every micro-batch (zero 3), on a
// stage with these units. `computing`: as BoundShape has it.
Features with_sharding(Features times, const Features& computing, const Parallelism& p, const DataTimes& data,
                       const UnitCounts& units, double slowdown);
// The slowdown of all that a stage does by communication that overlaps it: its kernels' share of the time.
double slowdown_of(const Features& times, const Features& computing, const UnitCounts& units, double slowdown);

// Of one group of stages.
struct Tail {
    double delay = 0;    // of the slots: parameters that are awaited at the start, slower last backwards
    double exposed = 0;  // between the last slot and the norm
};
struct TailInputs {
    const Parallelism& p;
    const Features& times;  // with_sharding() included
    const StageGroup& group;
    const DataTimes& data;
    int chunks = 1;
    double micro_batches = 1;  // that each chunk sees
    double slowdown = 0;
};
// `end`: of the slots of the group, without delays.
Tail tail_of(const TailInputs& in, double end);

}  // namespace stepcast
