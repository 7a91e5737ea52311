// What contention adds to the lower bound: time that a rank must lose because kernels of its way run beside exchanges.
#pragma once

#include "sim/bounds/data.h"
#include "sim/simulate.h"

namespace stepcast {

// A plan by itself, in seconds: what it takes at least, and the part of it in which kernels run beside no exchange.
struct LeastTimes {
    double all = 0, alone = 0;
};
LeastTimes least_times(const TaskGraph& plan, const Costs& costs, double slowdown);

// What is known of a split for this; times in seconds.
struct LeastInputs {
    const Parallelism& p;
    const Features& lower;
    const Features& alone;
    const DataTimes& data;  // of any stage: times of a unit are alike
    StageUnits units;       // layers and ends that the model has
    int piece_layers = 1;   // of the shortest piece
    double send = 0;        // and what follows it before a slot, at most
    double slowdown = 0;
};
// `lower` with what the exchanges of each slot delay: zero 3 inside and between slots, else gradients beside them.
Features with_least_exchanges(const LeastInputs& in);
// What a way that begins with the first slot takes longer for the parameters that its slots await and that slow them.
// zero 1, 2: `parameters` of a stage are gathered without a gap, at least.
double least_start(const LeastInputs& in, double parameters);

}  // namespace stepcast
