// What an MPI launcher tells each process that it started.
#pragma once

#include <cstdlib>
#include <initializer_list>

namespace stepcast {

// The first of these variables that the launcher set. srun also states the size of its step for a
// lone process inside an allocation; mpirun and PMI launchers set theirs only for what they start.
inline int stated_by_launcher(std::initializer_list<const char*> names, int otherwise) {
    for (const char* name : names)
        if (const char* value = std::getenv(name); value != nullptr) return std::atoi(value);
    return otherwise;
}

// How many processes the launcher started, and the number of this one; 1 and 0 without a launcher.
inline int mpi_processes() {
    return stated_by_launcher({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}, 1);
}
inline int mpi_process() {
    return mpi_processes() > 1
               ? stated_by_launcher({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}, 0)
               : 0;
}

}  // namespace stepcast
