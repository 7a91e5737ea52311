// The host as a device across processes: this process is one rank, as mpirun or srun started it, and collectives are
// MPI's. MPI itself is known to mpi_device.cpp only.
#pragma once

#include <memory>

#include "exec/device.h"

namespace stepcast {

// Starts MPI. ConfigError when the program was built without it.
std::unique_ptr<Device> open_mpi_device();

}  // namespace stepcast
