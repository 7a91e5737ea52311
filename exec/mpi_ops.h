// Collectives and sends between MPI processes.
#pragma once

#include "exec/host_memory.h"
#include "exec/mpi_group.h"
#include "exec/rank_group.h"
#include "model/graph/op.h"

namespace stepcast {

void meet(const MpiGroup& group);

// Runs this rank's share of `op`, as communicate() does between threads (rank_group.h).
void communicate(const MpiGroup& group, const Op& op, const Operands& at);

}  // namespace stepcast
