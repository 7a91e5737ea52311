// The host as a device. Ranks are threads of this process, each pinned to its own core while there
// are enough, with one OpenBLAS thread a rank and collectives through shared memory. A rank's
// thread runs each task at once, so its lanes never overlap: the host behaves like launch_blocking
// = true, and host clusters say so.
#pragma once

#include <memory>

#include "exec/device.h"

namespace stepcast {

// The host as this process was started: one MPI rank under mpirun or srun (if built with MPI;
// `rank_count` must then be the number of processes), else all ranks as threads.
std::unique_ptr<Device> open_host_device(int rank_count);

// This process as the rank that mpirun or srun gave it; collectives are MPI's. Throws ConfigError
// if the program was built without MPI.
std::unique_ptr<Device> open_mpi_device();

}  // namespace stepcast
