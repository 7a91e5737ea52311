#include <cstdlib>

#include <fmt/format.h>

#include "exec/host_device.h"
#include "exec/mpi_device.h"
#include "model/errors.h"

namespace stepcast {

namespace {

// How many processes the launcher started; 1 without a launcher. srun states its step's size also for a lone process
// inside an allocation, mpirun and PMI launchers state theirs only to what they start.
int launched_processes() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
        if (const char* value = std::getenv(name); value != nullptr) return std::atoi(value);
    return 1;
}

}  // namespace

std::unique_ptr<Device> open_host_device(int rank_count) {
    const int processes = launched_processes();
    if (processes <= 1) return std::make_unique<HostDevice>(rank_count);
    if (processes != rank_count)
        throw ConfigError(
            fmt::format("execute: started as {} processes, but the experiment has {} ranks; start as many "
                        "processes as ranks, or one process without mpirun",
                        processes, rank_count));
    return open_mpi_device();
}

}  // namespace stepcast
