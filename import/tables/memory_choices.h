// Chooses by memory what a row leaves open: micro-batch size, recompute.
#pragma once

#include "import/tables/row_parts.h"
#include "model/experiment.h"

namespace stepcast {

// The largest micro-batch that fits with the experiment's recompute and divides a replica's
// sequences; 1 when none fits.
int fitting_micro_batch(const Experiment& experiment);

// The least recompute that fits into `room` times the memory. Candidates in order: none, the scores
// of plain attention, then whole layers of a stage, as few as possible.
ChosenRecompute fitting_recompute(const Experiment& experiment, double room = 1);

// Of a step that ran: the least stage, of those that the framework has, with which it fits when all
// layers are computed again; empty when none does.
std::optional<int> fitting_zero(const Experiment& experiment);

}  // namespace stepcast
