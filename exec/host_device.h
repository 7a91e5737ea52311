// The host as a device: ranks are threads of this process, each pinned to a core of its own while there are enough,
// with OpenBLAS at one thread a rank and collectives through shared memory. A rank's thread does each task at once, so
// its lanes never overlap: the host behaves like launch_blocking = true, and host clusters say so.
#pragma once

#include <memory>

#include "exec/device.h"

namespace stepcast {

// The host as this process was started: its MPI rank under mpirun or srun (when built with MPI), else threads.
// `rank_count` must then be the number of processes.
std::unique_ptr<Device> open_host_device(int rank_count);

// Across processes: this one is the rank as which mpirun or srun started it, and collectives are MPI's. ConfigError when the
// program was built without it.
std::unique_ptr<Device> open_mpi_device();

}  // namespace stepcast
