// Ops between ranks that are MPI processes. Included by exec/mpi_*.cpp only.
#pragma once

#include "exec/host_memory.h"
#include "exec/mpi_group.h"
#include "model/graph/op.h"

namespace stepcast {

// This rank's share of `op`, on the next buffers of its memory. An op that has no place on several ranks is our bug.
void communicate(const MpiGroup& group, HostMemory& memory, const Op& op);

}  // namespace stepcast
