// How the ranks of a run were started: as threads of this process, or one process each by mpirun, srun or a
// torchrun-style launcher, told from the environment.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace stepcast {

struct Launch {
    int rank = 0, processes = 1;
    int local_rank = 0;
    std::string address;  // where rank 0 can be reached; "" = not stated
    int port = 29500;     // torchrun's default
    bool one_host = false;  // all processes are on this one
    std::string token;      // what only the processes of this run know; "" = the launcher gave none
    friend bool operator==(const Launch&, const Launch&) = default;
};

inline constexpr std::size_t longest_token = 256;

using Environment = std::function<const char*(const char* name)>;  // null when not set

// RANK, WORLD_SIZE and LOCAL_RANK (torchrun); else those of Open MPI, PMI or Slurm. The address is MASTER_ADDR and
// MASTER_PORT, else host and port of NCCL_COMM_ID (there the next port, since NCCL listens on that one), else this host
// when the launcher started all processes on one. The token is STEPCAST_TOKEN, else what Open MPI draws for each run, else
// torchrun's or Slurm's name of the run. Throws ConfigError on numbers that make no sense.
Launch read_launch(const Environment& environment);

// Rank 0's text, on every process that mpirun or srun started: the one thing that MPI is asked for when the ranks are GPU
// processes. ConfigError when the program was built without MPI.
std::string broadcast_by_mpi(const std::string& text);

}  // namespace stepcast
