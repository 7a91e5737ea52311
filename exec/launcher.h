// How a run's ranks were started, by the environment: as threads, or as processes of mpirun, srun
// or a torchrun-style launcher.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace stepcast {

struct Launch {
    int rank = 0, processes = 1;
    int local_rank = 0;
    std::string address = {};  // of rank 0; "" = not stated
    int port = 29500;          // torchrun's default
    bool one_host = false;     // whether all processes are on this host
    std::string token = {};  // known only to the processes of this run; "" = the launcher gave none
    friend bool operator==(const Launch&, const Launch&) = default;
};

inline constexpr std::size_t longest_token = 256;

using Environment = std::function<const char*(const char* name)>;  // null when not set

// Reads RANK, WORLD_SIZE and LOCAL_RANK (torchrun), or else the variables of Open MPI, PMI or
// Slurm. The address is MASTER_ADDR and MASTER_PORT; else host and port of NCCL_COMM_ID (with the
// next port, because NCCL listens on that one); else this host if the launcher started all
// processes on one. The token is STEPCAST_TOKEN, else what Open MPI draws for each run, else
// torchrun's or Slurm's name of the run. Throws ConfigError on numbers that make no sense.
Launch read_launch(const Environment& environment);

// Returns rank 0's text on every process that mpirun or srun started. It is the only use of MPI
// when the ranks are GPU processes. Throws ConfigError if the program was built without MPI.
std::string broadcast_by_mpi(const std::string& text);

}  // namespace stepcast
