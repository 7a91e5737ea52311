// Chooses by memory what a row leaves open: micro-batch size, recompute.
#pragma once

#include "import/tables/row_parts.h"
#include "model/experiment.h"

namespace stepcast {

// The largest micro-batch that fits with the experiment's recompute and divides a replica's
// sequences; 1 when none fits.
int fitting_micro_batch(const Experiment& experiment);

ChosenRecompute fitting_recompute(const Experiment& experiment, double room = usual_room);

}  // namespace stepcast
