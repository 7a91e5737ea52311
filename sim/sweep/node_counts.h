// How many nodes a training within a time may need: what `sweep --within` tries when the number is not said.
#pragma once

#include "sim/sweep/worker.h"

namespace stepcast {

// Adds an axis cluster.nodes to a question with `within` that varies no number of ranks: from what the useful arithmetic
// needs at the datasheet's peak to sixteen times as many, with four significant bits (8, 9 .. 16, 18 .. 32, 36 ..). Throws
// ConfigError where no training is asked for.
void add_node_counts(SweepQuestion& question);

}  // namespace stepcast
