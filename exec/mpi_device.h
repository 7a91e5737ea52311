// The host as a device across processes: this process is one rank, as mpirun or srun started it, and collectives are
// MPI's. MPI itself is known to mpi_device.cpp only.
#pragma once

#include <memory>
#include <string>

#include "exec/device.h"

namespace stepcast {

// Starts MPI. ConfigError when the program was built without it.
std::unique_ptr<Device> open_mpi_device();

// The one thing that MPI is asked for when the ranks are GPU processes: to tell all of them what rank 0 says.

// Rank 0's text, on every process that mpirun or srun started. ConfigError when the program was built without MPI.
std::string broadcast_by_mpi(const std::string& text);

}  // namespace stepcast
