// Collectives and sends between threads of one process, through the memory that they share.
#pragma once

#include "exec/host_memory.h"
#include "exec/rank_group.h"
#include "model/base/errors.h"

namespace stepcast {

// Runs participant `index`'s share of `op`. Every participant calls it with its own buffers, of the
// sizes in footprint(), and may reuse them when it returns. Sums run in the order of the
// participants, so results do not depend on timing. An op of one rank is a bug here.
void communicate(RankGroup& group, std::size_t index, const Op& op, const Operands& at);

}  // namespace stepcast
