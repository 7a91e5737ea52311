// How many nodes a training within a given time may need: the counts that `sweep --within` tries if
// none are stated.
#pragma once

#include "sim/sweep/worker.h"

namespace stepcast {

// If a question has `within` and varies no number of ranks, adds an axis cluster.nodes: from what
// the useful arithmetic needs at the datasheet's peak to sixteen times as many, with four
// significant bits (8, 9 .. 16, 18 .. 32, 36 ..). Throws ConfigError if no training is asked for.
void add_node_counts(SweepQuestion& question);

}  // namespace stepcast
