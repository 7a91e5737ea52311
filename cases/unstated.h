// What a row leaves open and memory decides: people raise the micro-batch until it no longer fits, and recompute only
// what does not fit. An estimate for choosing, not a prediction of memory. Internal to cases/.
#pragma once

#include "model/experiment.h"

namespace stepcast {

// Bytes of the fullest rank: weights, gradients and optimizer states under the ZeRO stage, and activations in flight
// after arXiv 2205.05198, section 4, of the layers that are not recomputed.
Bytes estimated_memory(const Experiment& experiment);

// The largest divisor of the sequences of a replica that fits with the experiment's recompute; 1 when none does.
int fitting_micro_batch(const Experiment& experiment);

struct ChosenRecompute {
    Recompute kind = Recompute::none;
    int layers = 0;  // as Parallelism::recompute_layers
    friend bool operator==(const ChosenRecompute&, const ChosenRecompute&) = default;
};
// The least whose estimate fits into `room` of the memory: none, then the scores of plain attention, then whole layers of a
// stage, as few as possible.
inline constexpr double usual_room = 1.15;  // what comes so near was made to fit by other means
ChosenRecompute fitting_recompute(const Experiment& experiment, double room = usual_room);

}  // namespace stepcast
