// How a run's ranks were started, by the environment: as threads, or as processes of mpirun, srun
// or a torchrun-style launcher.
#pragma once

#include <functional>
#include <string>

namespace stepcast {

struct Launch {
    int rank = 0, processes = 1;
    int local_rank = 0;
    bool by_mpi = false;       // whether mpirun, srun or a PMI launcher started these processes
    std::string id_file = {};  // where rank 0 leaves NCCL's id; "" = not stated
    friend bool operator==(const Launch&, const Launch&) = default;
};

using Environment = std::function<const char*(const char* name)>;  // null when not set

// Reads RANK, WORLD_SIZE and LOCAL_RANK (torchrun), or else the variables of Open MPI, PMI or
// Slurm, and STEPCAST_ID_FILE. Throws ConfigError on numbers that make no sense.
Launch read_launch(const Environment& environment);

}  // namespace stepcast
