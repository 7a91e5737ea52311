// Collectives between ranks that are threads of one process.
#pragma once

#include "exec/host_memory.h"
#include "exec/rank_group.h"

namespace stepcast {

// Participant `index`'s share of `op`: every participant calls it with buffers of its own, of the sizes that footprint()
// says, and it returns when they may be used again. Sums run in the order of the participants, so results do not depend on
// timing. An op that has no place on several ranks is our bug.
void communicate(RankGroup& group, std::size_t index, const Op& op, const Operands& at);

}  // namespace stepcast
