// The one thing that MPI is asked for when the ranks are GPU processes: to tell all of them what rank 0 says.
#pragma once

#include <string>

namespace stepcast {

// Rank 0's text, on every process that mpirun or srun started. ConfigError when the program was built without MPI.
std::string broadcast_by_mpi(const std::string& text);

}  // namespace stepcast
