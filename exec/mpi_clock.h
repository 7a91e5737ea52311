// Clocks of processes on several machines. Included by exec/mpi_*.cpp only.
#pragma once

#include "exec/mpi_group.h"

namespace stepcast {

// What to add to this process's wall_clock() to read rank 0's: the middle of the quickest of some round trips. All
// ranks call it together.
Seconds clock_offset(const MpiGroup& world);

}  // namespace stepcast
